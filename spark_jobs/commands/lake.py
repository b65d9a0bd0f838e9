"""`onceover lake …`: commands for a lake as a whole."""

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.commands.failure import reported_failures
from spark_jobs.extras import Extra, require

lake = typer.Typer(no_args_is_help=True, add_completion=False)


@lake.callback()
def _lake() -> None:
    """Make a copied or moved lake an independent lake."""


@lake.command()
def relocate(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
) -> None:
    """Make a copied or moved lake an independent lake: rewrite all addresses in it to its current location.

    Copy the whole directory or prefix first, and set 'lake' in the configuration to the new location. The
    original is not changed. Repeat the command if it was interrupted.
    """
    with reported_failures():
        require(Extra.PIPELINE, "onceover lake relocate")
        from spark_jobs.config.load import load_settings
        from spark_jobs.operations.relocate import relocate as relocate_lake
        from spark_jobs.progress import RunProgress

        settings = load_settings(config)
        done = relocate_lake(settings, RunProgress().on_progress)
    if done.came_from == done.identity.location:
        typer.echo(f"{done.came_from}: the lake is at its own location, nothing has to be relocated")
        return
    typer.echo(
        f"{done.identity.location}: relocated from {done.came_from}, {done.files:,} files rewritten, "
        f"{done.tables:,} tables in its catalog; `onceover check` verifies the copy"
    )
