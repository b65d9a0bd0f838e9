"""`onceover check`: verifies a whole lake."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.commands.failure import EXIT_FAILED, reported_failures
from spark_jobs.extras import Extra, require


def check(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every byte and compare it with its digest.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per finding.")] = False,
) -> None:
    """Verify a whole lake: location, chain, run folders, states, staged objects, tables and their files.

    Nothing is written. The exit code is 1 if something is wrong; notes alone leave it at 0.
    """
    errors = notes = 0
    with reported_failures():
        require(Extra.PIPELINE, "onceover check")
        from spark_jobs.config.load import load_settings
        from spark_jobs.operations.check import FindingSeverity
        from spark_jobs.operations.check import check as check_lake
        from spark_jobs.progress import RunProgress

        settings = load_settings(config)
        for finding in check_lake(settings, deep=deep, on_progress=RunProgress().on_progress):
            errors += finding.severity is FindingSeverity.ERROR
            notes += finding.severity is FindingSeverity.NOTE
            if as_json:
                typer.echo(json.dumps(asdict(finding)))
                continue
            remedy = f"\n    {finding.remedy}" if finding.remedy else ""
            typer.echo(f"{finding.severity}  {finding.part}  {finding.place}: {finding.problem}{remedy}")
    if not as_json:
        how = "every byte was read" if deep else "data was not read; --deep reads every byte"
        typer.echo(f"{errors} errors, {notes} notes ({how})")
    if errors:
        raise typer.Exit(EXIT_FAILED)
