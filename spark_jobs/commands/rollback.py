"""`onceover rollback`: a published run taken back."""

from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.commands.failure import told_failures


def rollback(
    run_id: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
) -> None:
    """Take a published run back: its rows and its tag leave every table, its night can run again."""
    from spark_jobs.config.load import load_settings  # noqa: PLC0415 — --help does without
    from spark_jobs.rollback import roll_back  # noqa: PLC0415 — likewise

    with told_failures():
        found = roll_back(load_settings(config), run_id)
    typer.echo(f"{run_id}  taken back from {found} tables")
