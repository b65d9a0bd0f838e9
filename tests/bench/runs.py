"""A run through Onceover's own steps in a fresh lake, watched from outside."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from io import StringIO
from pathlib import Path
from typing import Any, Self

from rich.console import Console

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.lake.accepted_log import accepted_logs, write_log
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.ledger import Ledger, LedgerLine, StepLine
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.context import RunContext
from spark_jobs.pipeline.index import step
from spark_jobs.pipeline.index.job import Bin
from spark_jobs.pipeline.index.step import IndexedBin
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from tests.bench.measure import Watched, own_peak_megabytes

DAY = date(2024, 5, 1)
CAPTURE = """
lake: {lake}
sources:
  - {{name: gateway, kind: capture, root: {source}, dates: "dt=%Y-%m-%d", immutable: true, markers: true}}
"""
BROKER_LOG = """
lake: {lake}
sources:
  - {{name: broker, kind: broker-log, root: {source}, immutable: true}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMeasured:
    """One run from the start of `stage` to its end.

    `read_bytes` are all that driver and workers have read or mapped, `stage` included. `moved_bytes` are what
    workers have written for others to read: all that they wrote but the files of tables and of the accepted
    log, and what Spark has shuffled.
    """

    seconds: float
    cpu_seconds: float
    steps: dict[str, float]
    counts: dict[str, dict[str, int]]
    read_bytes: int
    moved_bytes: int
    worker_megabytes: int
    driver_megabytes: int
    jvm_megabytes: int

    @property
    def numbers(self) -> dict[str, float]:
        """What a row of results keeps of it."""
        return {
            **{f"{step} s": seconds for step, seconds in self.steps.items()},
            "read bytes": self.read_bytes,
            "moved bytes": self.moved_bytes,
            "worker MB": self.worker_megabytes,
            "driver MB": self.driver_megabytes,
            "JVM MB": self.jvm_megabytes,
        }


def run_measured(
    source: Path,
    spark: Spark,
    *,
    until: Step = Step.PUBLISH,
    config: str = CAPTURE,
    scratch: Path,
    keep_log: Path | None = None,
) -> RunMeasured:
    """Run the date whose objects are below `source`; `keep_log` is where its accepted log is wanted."""
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lake-", dir=scratch) as lake:
        settings = parse_settings(config.format(lake=lake, source=source), name="bench.yaml", base=scratch)
        return measured_run(settings, spark, until=until, keep_log=keep_log)


def measured_run(
    settings: Settings,
    spark: Spark,
    *,
    day: date = DAY,
    until: Step = Step.PUBLISH,
    keep_log: Path | None = None,
) -> RunMeasured:
    """Run `day` in the lake of `settings`, whatever is there already."""
    shuffled = shuffled_bytes(spark)
    with MappedByIndex() as mapped, Watched() as watched:
        outcome = execute_run(settings, day, until=until, spark=spark, progress=quiet_progress())
        ended = time.time()
    line = Ledger(open_lake(settings)).read(outcome.run_id)
    assert line is not None
    if keep_log is not None:
        _keep_log(open_lake(settings), keep_log)
    return RunMeasured(
        seconds=ended - _began(line, Step.STAGE),
        cpu_seconds=watched.cpu_seconds(),
        steps={str(step.step): seconds_of(step) for step in line.steps},
        counts={str(step.step): step.counts for step in line.steps},
        read_bytes=watched.bytes_read() + mapped.bytes,
        moved_bytes=_moved(watched, open_lake(settings), line) + shuffled_bytes(spark) - shuffled,
        worker_megabytes=watched.most_megabytes("pyspark.daemon"),
        driver_megabytes=own_peak_megabytes(),
        jvm_megabytes=watched.most_megabytes("org.apache.spark"),
    )


def quiet_progress() -> RunProgress:
    return RunProgress(Console(file=StringIO()))


def seconds_of(step: StepLine) -> float:
    started, finished = map(datetime.fromisoformat, (step.started_at, step.finished_at))
    return (finished - started).total_seconds()


def _began(line: LedgerLine, step: Step) -> float:
    found = next(each for each in line.steps if each.step is step)
    return datetime.fromisoformat(found.started_at).timestamp()


def _moved(watched: Watched, lake: ObjectStore, line: LedgerLine) -> int:
    """What workers wrote beside the tables and the accepted log, which `materialise` writes."""
    kept = sum(found.size for found in lake.list(step_key(line.run_id, Step.MATERIALISE)))
    return max(watched.workers_wrote() - kept, 0)


class MappedByIndex:
    """Counts what workers of `index` map, which the system does not count as read."""

    def __init__(self) -> None:
        self.bytes, self._index = 0, step.index

    def __enter__(self) -> Self:
        step.index = self._counted
        return self

    def __exit__(self, *_: object) -> None:
        step.index = self._index

    def _counted(self, context: RunContext, bins: Sequence[Bin]) -> Iterator[IndexedBin]:
        for each in self._index(context, bins):
            self.bytes += each.summary.mapped
            yield each


def shuffled_bytes(spark: Spark) -> int:
    """What Spark has shuffled so far; 0 where tasks run without it."""
    if "_engine" not in vars(spark):
        return 0
    # Without Spark's UI nothing else has the bytes of all executors.
    context: Any = vars(spark.session.sparkContext)["_jsc"]
    executors = context.sc().statusStore().executorList(False)
    return sum(int(executors.apply(place).totalShuffleWrite()) for place in range(executors.size()))


def _keep_log(lake: ObjectStore, directory: Path) -> None:
    for partition, parts in accepted_logs(lake, read_chain(lake)).items():
        write_log(lake, parts, directory / str(partition))
