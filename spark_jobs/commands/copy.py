"""`onceover copy`: a consistent copy of a running broker's log directory."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from spark_jobs.commands.address import open_address
from spark_jobs.commands.failure import reported_failures, survive_broken_connections
from spark_jobs.lake.object_store import legible
from spark_jobs.operations.copy import CopyCounts, CopyRequest, as_plain, copy_directory
from spark_jobs.operations.copy_snapshot import CopyPart


def copy(
    log_directory: Annotated[
        Path,
        typer.Argument(metavar="LOGDIR", help="A log directory of a broker: one of its `log.dirs`."),
    ],
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DEST",
            help="A path or s3://bucket/prefix; each log directory needs its own.",
        ),
    ],
    *,
    only: Annotated[
        CopyPart | None,
        typer.Option(
            help="Copy only the data, or only the coordinators' logs (__transaction_state and "
            "__consumer_offsets). With several log directories or brokers: first the data of all, then the "
            "coordinators' logs of all.",
            show_default="both",
        ),
    ] = None,
    links: Annotated[
        Path | None,
        typer.Option(
            help="Where to make the folder for hard links, on the file system of LOGDIR and outside of it.",
            show_default="beside LOGDIR",
        ),
    ] = None,
    no_links: Annotated[
        bool, typer.Option("--no-links", help="Make no hard links: copy files while the broker changes them.")
    ] = False,
    endpoint_url: Annotated[
        str | None, typer.Option(help="The S3 server, if it is not AWS.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
) -> None:
    """Copy a running broker's log directory, for a source of kind `broker-log`; run it before every run.

    The broker keeps running and is not asked. Hard links are made first: segments that retention deletes
    during the copy stay readable, and are removed from disk when the copy ends. Data comes first, the
    coordinators' logs after it, the checkpoint files last. Active segments are copied up to the size that
    they had when the copy began.

    Closed segments are copied once: the next copy transfers what is new, and removes from DEST what the
    broker has deleted. A copy that was interrupted is continued by the same command. Files get their names
    when they are complete; onceover-copy.json is written last.

    S3 credentials come from the environment, a profile or a role.

    Example: onceover copy /var/lib/kafka/data s3://backup/kafka/broker-1
    """
    err = Console(stderr=True, highlight=False, soft_wrap=True)
    with reported_failures(when_interrupted="the next copy continues from there"):
        survive_broken_connections()
        store = open_address(destination, endpoint_url)
        request = CopyRequest(
            log_directory=log_directory.absolute(),
            store=store,
            parts=tuple(CopyPart) if only is None else (only,),
            links=links and links.absolute(),
            is_linked=not no_links,
        )
        with err.status("listing the log directory") as status:
            done = 0

            def watch(key: str, size: int) -> None:
                nonlocal done
                done += size
                status.update(Text(legible(f"{done:,} bytes, {key}")))

            counts = copy_directory(
                request,
                remark=lambda text: err.print(f"onceover: {legible(text)}", markup=False),
                watch=watch,
            )
    typer.echo(json.dumps(as_plain(counts)) if as_json else _sentence(counts, store.url))


def _sentence(counts: CopyCounts, where: str) -> str:
    parts = [
        f"{counts.partitions:,} partitions",
        f"{counts.files:,} files copied ({counts.bytes:,} bytes)",
        f"{counts.unchanged_files:,} unchanged ({counts.unchanged_bytes:,} bytes)",
        f"{counts.removed:,} removed",
    ]
    if counts.vanished:
        parts.append(f"{counts.vanished:,} deleted by the broker meanwhile")
    return f"{where}: {', '.join(parts)}, {counts.seconds} s"
