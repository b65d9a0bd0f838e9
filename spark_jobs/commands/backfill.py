"""`onceover backfill`: runs dates again with the current content of their sources."""

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spark_jobs.commands.failure import CONTINUES, exit_if_held, reported_failures
from spark_jobs.commands.printed_rows import show_rows
from spark_jobs.extras import Extra, require
from spark_jobs.flow import Step
from spark_jobs.lake.object_store import printable

if TYPE_CHECKING:
    from spark_jobs.operations.backfill import BackfillPlan, DayPlan

MOST_OBJECTS = 3
TITLES = ("date", "runs again", "why", "objects")
DAY = ["%Y-%m-%d"]


def backfill(
    config: Annotated[Path, typer.Option("--config", help="The configuration, a YAML file.")],
    first: Annotated[datetime, typer.Option("--from", formats=DAY, help="The first date to run again.")],
    last: Annotated[
        datetime,
        typer.Option(
            "--to", formats=DAY, help="The last date to run again; later dates follow if their state changes."
        ),
    ],
    *,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only topics of this name or pattern; repeatable.")
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option("--source", help="Only objects of this source; repeatable.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; `onceover runs` shows it.")] = "",
    drop_vanished: Annotated[
        bool, typer.Option("--drop-vanished", help="Also drop objects that their source no longer has.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the dates that would change, and why.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per date.")] = False,
    until: Annotated[Step, typer.Option("--until", help="The last step to run.")] = Step.REPORT,
) -> None:
    """Run dates again with the current content of their sources.

    Later dates run again as long as their inputs or state change. Dates without changes are skipped, so an
    interrupted backfill continues where it stopped. Topics and sources that --topic and --source leave out
    keep their inputs.
    """
    with reported_failures(when_interrupted=CONTINUES):
        require(Extra.PIPELINE, "onceover backfill")
        from spark_jobs.config.load import load_settings
        from spark_jobs.execution.spark import spark_for
        from spark_jobs.operations.backfill import plan_backfill, run_backfill
        from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
        from spark_jobs.progress import RunProgress

        settings = load_settings(config)
        request = BackfillRequest(
            first=first.date(),
            last=last.date(),
            topics=tuple(topic or ()),
            sources=tuple(source or ()),
            reason=reason,
            drop_vanished=drop_vanished,
        )
        plan = plan_backfill(settings, request)
        _show(plan, as_json=as_json)
        if dry_run or not plan.changes:
            return
        progress, held = RunProgress(), ""
        for outcome in run_backfill(
            settings, request, spark=spark_for(settings.spark), progress=progress, until=until
        ):
            status = "final" if outcome.is_final else f"done until {until}"
            typer.echo(f"{outcome.run_id}  {status}", err=as_json)
            held = outcome.run_id if outcome.is_held else held
    exit_if_held(held, is_held=bool(held))


def _show(plan: "BackfillPlan", *, as_json: bool) -> None:
    if as_json:
        for day in plan.days:
            typer.echo(json.dumps(day.to_plain()))
        return
    if not plan.days:
        typer.echo(
            "neither these dates nor later ones have a final run: "
            "`onceover run` runs a date for the first time"
        )
        return
    show_rows(TITLES, [_row(day) for day in plan.days])
    if not plan.changes:
        typer.echo("no date has changed, nothing has to run")


def _row(day: "DayPlan") -> tuple[str, ...]:
    answer = "yes" if day.changes else "may run again" if day.reasons else "no"
    why = "\n".join(each.sentence for each in day.reasons) or "nothing has changed"
    if day.missed:
        why += f"\n{day.missed:,} objects are gone from their source; their copies in the lake are used"
    return str(day.day), answer, why, _objects(day)


def _objects(day: "DayPlan") -> str:
    named = [printable(path) for reason in day.reasons for path in reason.objects]
    more = len(named) - MOST_OBJECTS
    return "\n".join([*named[:MOST_OBJECTS], *([f"and {more:,} more"] if more > 0 else [])])
