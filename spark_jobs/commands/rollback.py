"""`onceover rollback`: a run taken back."""

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.commands.failure import told_failures
from spark_jobs.config.load import load_settings
from spark_jobs.rollback import roll_back


def rollback(
    run_id: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
) -> None:
    """Take a run back: its rows and its tag leave every table, and its date can run again.

    A run that failed, was interrupted or was not finished can be taken back as well; the overview then shows
    the newest run without it. A final run only if none of a later date builds upon it.
    """
    with told_failures():
        found = roll_back(load_settings(config), run_id)
    typer.echo(f"{run_id}  rolled back, {f'removed from {found} tables' if found else 'no table held it'}")
