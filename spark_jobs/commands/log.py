"""`onceover log`: writes the accepted log as a Kafka log directory."""

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.commands.failure import reported_failures
from spark_jobs.lake.object_store import MOST_SHOWN, printable


def log(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    to: Annotated[
        Path,
        typer.Option(
            "--to", help="The directory to write; it must be empty or not exist.", show_default=False
        ),
    ],
    topic: Annotated[list[str] | None, typer.Option("--topic", help="Only this topic; repeatable.")] = None,
) -> None:
    """Write the accepted batches of captures, of all final runs, as a Kafka log directory."""
    if to.exists() and any(to.iterdir()):
        name = printable(str(to), shown=MOST_SHOWN)
        typer.echo(f"onceover: {name}: directory is not empty; refusing to overwrite", err=True)
        raise typer.Exit(1)
    with reported_failures():
        from spark_jobs.config.load import load_settings
        from spark_jobs.lake.accepted_log import accepted_logs, write_log
        from spark_jobs.lake.chain import read_chain
        from spark_jobs.lake.stores import open_lake

        lake = open_lake(load_settings(config))
        logs = accepted_logs(lake, read_chain(lake), topic or ())
        for partition, parts in logs.items():
            size = write_log(lake, parts, to / str(partition))
            segments = [part.base_offset for part in parts.values() if part.base_offset is not None]
            found = f"{len(segments)} segments from offset {min(segments)}, {size:,} bytes"
            typer.echo(f"{printable(str(partition))}  {found}")
    if not logs:
        typer.echo("nothing was accepted from captures yet", err=True)
