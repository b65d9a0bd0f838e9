"""`onceover check-capture`: whether objects follow the capture format."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from spark_jobs.commands.address import open_address
from spark_jobs.commands.failure import EXIT_FAILED, reported_failures
from spark_jobs.lake.object_store import legible
from spark_jobs.operations.check_capture import CaptureCounts, Weight
from spark_jobs.operations.check_capture import check_capture as check_objects


def check_capture(
    root: Annotated[
        str, typer.Argument(metavar="DIR", help="The root of a capture: a path or s3://bucket/prefix.")
    ],
    *,
    dates: Annotated[
        str, typer.Option(help="The layout of the date folders, as in the source's `dates`; empty for none.")
    ] = "dt=%Y-%m-%d",
    endpoint_url: Annotated[
        str | None, typer.Option(help="The S3 server, if it is not AWS.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per finding.")] = False,
) -> None:
    """Check whether the objects of a capture follow the format, problem by problem.

    Every batch is read with its checksum, and every answer of a broker is compared with its batch. Nothing is
    written. The exit code is 1 if there is a problem; notes alone leave it at 0.
    """
    counts, problems, notes = CaptureCounts(), 0, 0
    with reported_failures():
        for finding in check_objects(open_address(root, endpoint_url), dates or None, counts):
            problems += finding.weight is Weight.PROBLEM
            notes += finding.weight is Weight.NOTE
            text = f"{finding.weight}  {finding.path}: {finding.text}"
            typer.echo(json.dumps(asdict(finding)) if as_json else legible(text))
    if not as_json:
        typer.echo(
            f"{counts.objects:,} objects, {counts.batches:,} batches ({counts.markers:,} markers), "
            f"{counts.bytes:,} bytes, "
            f"{counts.answers:,} answers: {problems:,} problems, {notes:,} notes"
        )
    if problems:
        raise typer.Exit(EXIT_FAILED)
