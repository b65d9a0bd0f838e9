"""Handles the requests of tasks with one shared Spark session.

A run starts with `SourcesRequest`. Starting Spark and importing what `audit` needs take longer than fetching
a source, so both start then in the background.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any, assert_never

from spark_jobs.backfill import next_day, plan_backfill, run_backfill_day
from spark_jobs.backfilling.request import BackfillRequest, read_request
from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings, SparkSettings
from spark_jobs.driver.messages import (
    Answer,
    DaysRequest,
    DriverRequest,
    ExpireRequest,
    FetchRequest,
    PlanRequest,
    ReportRequest,
    Request,
    SourcesRequest,
    StepAnswer,
    StepRequest,
)
from spark_jobs.flow import LAST_OF_RUN, Step
from spark_jobs.reporting.run_progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run, fetch_source, prepare_step, report_run
from spark_jobs.spark_session import Spark, spark_for


class RequestHandler:
    """Does what is asked; the Spark of the first request serves all."""

    def __init__(self) -> None:
        self._spark: Spark | None = None
        self._starting: Future[None] | None = None

    def do(self, request: StepRequest | DriverRequest, progress: RunProgress) -> StepAnswer | Answer:
        settings = load_settings(Path(request.config))
        if isinstance(request, StepRequest):
            return self._step(request, settings, progress)
        return Answer(values=self._values(request, settings, progress))

    def _values(self, request: DriverRequest, settings: Settings, progress: RunProgress) -> Mapping[str, Any]:
        match request:
            case SourcesRequest():
                self._start_early(request, settings)
                return {"sources": [source.name for source in settings.sources]}
            case FetchRequest():
                spark = self._spark_for(request, settings)
                return fetch_source(
                    settings, request.day, request.source, spark=spark, restage=request.restage
                )
            case ReportRequest():
                return report_run(settings, request.run_id or None, progress)
            case ExpireRequest():
                return expire_values(settings)
            case PlanRequest():
                return plan_values(settings, read_request(request.backfill))
            case DaysRequest():
                return self._days(request, settings, progress)
        assert_never(request)

    def stop(self) -> None:
        """Ends Spark, if it was started."""
        self._wait()
        if self._spark is not None:
            self._spark.stop()

    def _step(self, request: StepRequest, settings: Settings, progress: RunProgress) -> StepAnswer:
        if request.step is not Step.STAGE:
            self._wait()
        outcome = execute_run(
            settings,
            request.day,
            until=request.step,
            spark=self._spark_for(request, settings),
            progress=progress,
            more_steps_follow=request.more_steps_follow,
            restage=request.restage and request.step is Step.STAGE,
            is_first_call=request.step is Step.STAGE,
        )
        counts: dict[str, int] = {}
        for done in outcome.done:
            counts |= done.counts if done.step is request.step else {}
        return StepAnswer(
            run_id=outcome.run_id,
            worked=outcome.worked,
            is_final=outcome.is_final,
            counts=counts,
            tables=_tables(settings, outcome.run_id) if request.step is Step.PUBLISH else {},
        )

    def _days(self, request: DaysRequest, settings: Settings, progress: RunProgress) -> Mapping[str, Any]:
        self._wait()
        spark, backfill = self._spark_for(request, settings), read_request(request.backfill)
        runs = [
            {"run_id": outcome.run_id, "tables": dict(_tables(settings, outcome.run_id))}
            for outcome in due_days(settings, backfill, request, spark=spark, progress=progress)
        ]
        return {"runs": runs}

    def _spark_for(self, request: Request, settings: Settings) -> Spark:
        self._spark = self._spark or spark_for(asked_spark(request, settings.spark))
        return self._spark

    def _start_early(self, request: Request, settings: Settings) -> None:
        if self._spark is None:
            spark = self._spark_for(request, settings)
            beside = ThreadPoolExecutor(1, thread_name_prefix="start early")
            self._starting = beside.submit(_start, spark)
            beside.submit(prepare_step, Step.AUDIT)
            beside.shutdown(wait=False)

    def _wait(self) -> None:
        """Waits until Spark has started; a failure is raised by the step that needs it."""
        if self._starting is not None:
            self._starting.exception()
            self._starting = None


def _start(spark: Spark) -> None:
    _ = spark.session


def expire_values(settings: Settings) -> Mapping[str, int]:
    """Removes what may go, and counts it."""
    from spark_jobs.expire import expire  # noqa: PLC0415 — heavy, for one task

    gone = expire(settings)
    return {
        "runs": len(gone.folders),
        "staged_objects": len(gone.objects),
        "snapshots": sum(len(table.snapshots) for table in gone.tables),
        "bytes": gone.bytes,
    }


def plan_values(settings: Settings, request: BackfillRequest) -> Mapping[str, Any]:
    """The plan in plain values, without the names of objects, which can be millions."""
    plan = plan_backfill(settings, request)
    return {
        "changes": plan.changes,
        "days": [
            {
                "day": each.day.isoformat(),
                "run_id": each.run_id,
                "changes": each.changes,
                "reasons": [reason.sentence for reason in each.reasons],
            }
            for each in plan.days
        ],
    }


def due_days(
    settings: Settings,
    backfill: BackfillRequest,
    request: DaysRequest,
    *,
    spark: Spark,
    progress: RunProgress,
) -> Iterator[RunOutcome]:
    """Each day that has to run, in order; whether the next one has to shows when this one is done."""
    after = date.fromisoformat(request.after) if request.after else None
    last = date.fromisoformat(request.until) if request.until else date.max
    while (day := next_day(settings, backfill, after=after)) is not None and day <= last:
        yield run_backfill_day(settings, day, backfill, spark=spark, progress=progress, until=LAST_OF_RUN)
        after = day


def _tables(settings: Settings, run_id: str) -> Mapping[str, Mapping[str, str]]:
    from spark_jobs.storage.iceberg.published import published_tables  # noqa: PLC0415 — heavy, for one step

    return {
        name: {"snapshot_id": str(table.snapshot_id), "location": table.location}
        for name, table in published_tables(settings, run_id).items()
    }


def asked_spark(request: Request, configured: SparkSettings) -> SparkSettings:
    """The Spark that the request names; apart from the settings, which travel to every worker.

    Unlike the configuration's own, its `conf` may hold secrets.
    """
    return configured.model_copy(
        update={"master": request.master or configured.master, "conf": {**configured.conf, **request.conf}}
    )
