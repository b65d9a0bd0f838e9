"""What tasks can ask of the driver, done with one Spark for all of them.

A night begins with the question for its sources. Spark, and what `audit` loads, take longer to start than a
source takes to fetch; so both begin then, beside whatever is asked next.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import assert_never

from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.driver.messages import (
    Answer,
    Errand,
    FetchRequest,
    ReportRequest,
    Request,
    SourcesRequest,
    StepAnswer,
    StepRequest,
)
from spark_jobs.flow import Step
from spark_jobs.reporting.narrator import Narrator
from spark_jobs.run import fetch_source, report_run, run_night
from spark_jobs.spark_session import Spark, spark_for

SLOW_TO_LOAD = "spark_jobs.steps.audit"


class Errands:
    """Does what is asked; the Spark of the first request serves all."""

    def __init__(self) -> None:
        self._spark: Spark | None = None
        self._starting: Future[None] | None = None

    def do(self, request: StepRequest | Errand, narrator: Narrator) -> StepAnswer | Answer:
        settings = settings_for(request)
        match request:
            case StepRequest():
                return self._step(request, settings, narrator)
            case SourcesRequest():
                self._start_early(settings)
                return Answer(values={"sources": [source.name for source in settings.sources]})
            case FetchRequest():
                return Answer(values=fetch_source(settings, request.day, request.source))
            case ReportRequest():
                return Answer(values=report_run(settings, request.run_id or None, narrator))
        assert_never(request)

    def stop(self) -> None:
        """Ends Spark, if it was started."""
        self._wait()
        if self._spark is not None:
            self._spark.stop()

    def _step(self, request: StepRequest, settings: Settings, narrator: Narrator) -> StepAnswer:
        if request.step is not Step.STAGE:
            self._wait()
        outcome = run_night(
            settings,
            request.day,
            until=request.step,
            spark=self._spark_for(settings),
            narrator=narrator,
            goes_on=request.goes_on,
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

    def _spark_for(self, settings: Settings) -> Spark:
        self._spark = self._spark or spark_for(settings.spark)
        return self._spark

    def _start_early(self, settings: Settings) -> None:
        if self._spark is None:
            spark = self._spark_for(settings)
            beside = ThreadPoolExecutor(1, thread_name_prefix="start early")
            self._starting = beside.submit(_start, spark)
            beside.submit(_load_audit)
            beside.shutdown(wait=False)

    def _wait(self) -> None:
        """Until Spark has started, where that was begun; why it did not is told by the step that needs it."""
        if self._starting is not None:
            self._starting.exception()
            self._starting = None


def _start(spark: Spark) -> None:
    _ = spark.session


def _load_audit() -> None:
    import_module(SLOW_TO_LOAD).prepare()


def _tables(settings: Settings, run_id: str) -> Mapping[str, int]:
    from spark_jobs.storage.iceberg.published import published_snapshots  # noqa: PLC0415 — heavy, for one step

    return published_snapshots(settings, run_id)


def settings_for(request: Request) -> Settings:
    """The configuration, on the Spark that the request names."""
    settings = load_settings(Path(request.config))
    spark = settings.spark.model_copy(
        update={
            "master": request.master or settings.spark.master,
            "conf": {**settings.spark.conf, **request.conf},
        }
    )
    return settings.model_copy(update={"spark": spark})
