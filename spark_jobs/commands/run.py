"""`onceover run`: the steps of a night."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.commands.failure import told_failures
from spark_jobs.flow import Step


def run(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    date: Annotated[datetime, typer.Option("--date", formats=["%Y-%m-%d"], help="The night to run.")],
    until: Annotated[Step, typer.Option("--until", help="The last step to do.")] = Step.REPORT,
) -> None:
    """Run a night, step by step; what is done already is not done again."""
    from spark_jobs.config.load import load_settings  # noqa: PLC0415 — --help does without
    from spark_jobs.reporting.narrator import Narrator  # noqa: PLC0415 — likewise
    from spark_jobs.run import run_night  # noqa: PLC0415 — likewise
    from spark_jobs.spark_session import spark_for  # noqa: PLC0415 — likewise

    with told_failures():
        settings = load_settings(config)
        spark = spark_for(settings.spark)
        outcome = run_night(settings, date.date(), until=until, spark=spark, narrator=Narrator())
    said = "final" if outcome.is_final else f"done until {until}"
    typer.echo(f"{outcome.run_id}  {said}{'' if outcome.worked else ', nothing was left to do'}")
