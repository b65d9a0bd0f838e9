"""`onceover run`: the steps of one run date."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from spark_jobs.commands.failure import CONTINUES, exit_if_held, reported_failures
from spark_jobs.extras import Extra, require
from spark_jobs.flow import Step

PUBLISHED_UNTIL = (Step.PUBLISH, Step.REPORT)


def run(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    date: Annotated[datetime, typer.Option("--date", formats=["%Y-%m-%d"], help="The run date.")],
    until: Annotated[Step, typer.Option("--until", help="The last step to run.")] = Step.REPORT,
    restage: Annotated[
        bool,
        typer.Option(
            "--restage",
            help="List the sources again, although an earlier attempt has fixed the inputs of this date. "
            "Only for a run that is not final; use `onceover backfill` for a final run.",
        ),
    ] = False,
) -> None:
    """Run the steps of one date; finished steps are not repeated.

    The first attempt fixes the inputs. Later attempts use the same inputs and report what is new at the
    sources; --restage lists the sources again.

    Exit code 3: the run is final and published, but partitions are held behind offsets that no copy has.
    """
    with reported_failures(when_interrupted=CONTINUES):
        require(Extra.PIPELINE, "onceover run")
        from spark_jobs.commands.tables import emit_tables
        from spark_jobs.config.load import load_settings
        from spark_jobs.execution.spark import spark_for
        from spark_jobs.progress import RunProgress
        from spark_jobs.run import execute_run

        settings = load_settings(config)
        spark = spark_for(settings.spark)
        outcome = execute_run(
            settings, date.date(), until=until, spark=spark, progress=RunProgress(), restage=restage
        )
        if outcome.is_final and until in PUBLISHED_UNTIL:
            emit_tables(settings, config)
    status = "final" if outcome.is_final else f"done until {until}"
    status += ", partitions are held" if outcome.is_held else ""
    typer.echo(f"{outcome.run_id}  {status}{'' if outcome.worked else ', nothing was left to do'}")
    exit_if_held(outcome.run_id, is_held=outcome.is_held)
