"""A backfill: runs days again in order, one at a time, from what their sources hold now.

    plan_backfill(settings, request) -> BackfillPlan           what would change and why; writes nothing
    next_day(settings, request, after=None) -> date | None     the first day that has to run, after `after`
    run_backfill_day(settings, day, request, …) -> RunOutcome  that day as a whole

A backfill keeps no record of how far it is: a day that is as it should be has nothing left to do. So it goes
on where it stopped, whoever asks again. Step by step a day runs by `execute_run(…, backfill=request)`:
`stage` first, which fixes its inputs anew, then the others with what was fixed.
"""

from collections.abc import Iterator
from datetime import date

from spark_jobs.backfilling.outlook import BackfillPlan
from spark_jobs.backfilling.plan import Planner
from spark_jobs.backfilling.request import BackfillRequest, UnfitRequest
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.reporting.run_progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run
from spark_jobs.spark_session import Spark
from spark_jobs.storage.chain import read_chain
from spark_jobs.storage.iceberg.holdings import check_catalog
from spark_jobs.storage.identity import open_at_home


def plan_backfill(settings: Settings, request: BackfillRequest, *, after: date = date.min) -> BackfillPlan:
    """Which days would run again and why, as lake and sources are now; days up to `after` are left alone."""
    names = {source.name for source in settings.sources}
    for name in request.sources:
        if name not in names:
            raise UnfitRequest(f"the configuration has no source '{name}', only {', '.join(sorted(names))}")
    lake = open_at_home(settings)
    chain = read_chain(lake)
    check_catalog(settings, lake, chain)
    return Planner(settings, request, lake=lake, chain=chain, after=after).plan()


def next_day(settings: Settings, request: BackfillRequest, *, after: date | None = None) -> date | None:
    """The first day that has to run, None if nothing would change.

    A caller that runs day after day passes the last one as `after`: objects that arrive meanwhile do not
    restart the backfill. A day up to `after` runs again only if the one before it has changed its state.
    """
    plan = plan_backfill(settings, request, after=after or date.min)
    days = (each.day for each in plan.days if each.changes and (after is None or each.day > after))
    return next(days, None)


def run_backfill_day(
    settings: Settings,
    day: date,
    request: BackfillRequest,
    *,
    spark: Spark,
    progress: RunProgress,
    until: Step = Step.REPORT,
) -> RunOutcome:
    """One day: its inputs fixed anew, then all its steps; final unless `until` is too early for that."""
    staged = execute_run(
        settings,
        day,
        until=Step.STAGE,
        spark=spark,
        progress=progress,
        more_steps_follow=True,
        backfill=request,
    )
    if until is Step.STAGE:
        return staged
    return execute_run(settings, day, until=until, spark=spark, progress=progress, backfill=request)


def run_backfill(
    settings: Settings,
    request: BackfillRequest,
    *,
    spark: Spark,
    progress: RunProgress,
    until: Step = Step.REPORT,
) -> Iterator[RunOutcome]:
    """Day after day, until nothing is left; each is done when it is given."""
    day = next_day(settings, request)
    while day is not None:
        yield run_backfill_day(settings, day, request, spark=spark, progress=progress, until=until)
        day = next_day(settings, request, after=day)
