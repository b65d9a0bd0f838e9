"""`onceover rollback`: undoes a run."""

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.commands.failure import reported_failures
from spark_jobs.extras import Extra, require


def rollback(
    run_id: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
) -> None:
    """Roll back a run: remove its rows and its tag from every table, so that its date can run again.

    Failed, interrupted and unfinished runs can be rolled back as well. A final run can be rolled back only
    if no final run of a later date exists.
    """
    with reported_failures():
        require(Extra.PIPELINE, "onceover rollback")
        from spark_jobs.config.load import load_settings
        from spark_jobs.operations.rollback import roll_back

        found = roll_back(load_settings(config), run_id)
    typer.echo(f"{run_id}  rolled back, {f'removed from {found} tables' if found else 'no table held it'}")
