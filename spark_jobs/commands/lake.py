"""`onceover lake …`: the lake as a whole."""

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.commands.failure import reported_failures
from spark_jobs.config.load import load_settings
from spark_jobs.operations.relocate import relocate as relocate_lake
from spark_jobs.progress import RunProgress

lake = typer.Typer(no_args_is_help=True, add_completion=False)


@lake.callback()
def _lake() -> None:
    """The lake as a whole: make a copy of it a lake of its own."""


@lake.command()
def relocate(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
) -> None:
    """Make a copied or moved lake a lake of its own: all addresses in it are rewritten to where it is now.

    Copy the whole directory or prefix first, and name the new place as 'lake' in the configuration. The
    original is not changed. An interrupted relocation is simply repeated.
    """
    with reported_failures():
        settings = load_settings(config)
        done = relocate_lake(settings, RunProgress().on_progress)
    if done.came_from == done.identity.location:
        typer.echo(f"{done.came_from}: this lake is where it was made, nothing has to be relocated")
        return
    typer.echo(
        f"{done.identity.location}: relocated from {done.came_from}, {done.files:,} files rewritten, "
        f"{done.tables:,} tables in its catalog; `onceover check` verifies the copy"
    )
