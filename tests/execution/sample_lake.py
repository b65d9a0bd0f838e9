"""Both runs of the sample with every threshold of scheduling lowered, so that Spark gets all their work."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from spark_jobs.config.load import load_settings
from spark_jobs.execution.python_worker import Summary, Task
from spark_jobs.execution.shuffle import Rows, Shuffled
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.pipeline.audit import plan as audit_plan
from spark_jobs.pipeline.audit import step as audit
from spark_jobs.pipeline.deduplicate import step as deduplicate
from spark_jobs.pipeline.index import step as index
from spark_jobs.pipeline.materialise import step as materialise
from spark_jobs.pipeline.rebuild import step as rebuild
from spark_jobs.pipeline.resolve import parts, phases
from spark_jobs.pipeline.stage import fetch
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from spark_jobs.sample.files import CONFIG, write_sample
from spark_jobs.sample.story import RUN_DATES
from tests.golden.digests import Digests, lake_digests
from tests.golden.scenarios import COPIED_AT

SHUFFLES = {"shuffle by bucket", "shuffle by bin", "shuffle by coordinator_partition", "shuffle by place"}


@dataclass(frozen=True)
class Scheduled(Spark):
    """Remembers what was scheduled, by function or key, and what ran in the driver."""

    scheduled: set[str] = field(default_factory=set)
    in_driver: set[str] = field(default_factory=set)

    def run_tasks(
        self,
        function: Callable[[Task], Summary],
        tasks: Sequence[Task],
        *,
        in_driver: bool = False,
        **more: Any,
    ) -> list[Summary]:
        if tasks:
            name = getattr(function, "func", function).__name__
            (self.in_driver if in_driver else self.scheduled).add(name)
        return super().run_tasks(function, tasks, in_driver=in_driver, **more)

    def shuffle(
        self, sides: Sequence[Rows], *, key: str, in_driver: bool = False, **more: Any
    ) -> Shuffled[Any]:
        (self.in_driver if in_driver else self.scheduled).add(f"shuffle by {key}")
        return super().shuffle(sides, key=key, in_driver=in_driver, **more)


def schedule_everything(patch: pytest.MonkeyPatch) -> None:
    """Nothing is too small for a task of its own."""
    patch.setattr(fetch, "IN_DRIVER_COST", 0)
    patch.setattr(fetch, "SMALLEST_TASK", 1)
    patch.setattr(index, "SMALLEST_TASK", 1)
    patch.setattr(rebuild, "PARTITIONS_PER_TASK", 4)
    patch.setattr(parts, "ROWS_PER_BUCKET", 16)
    patch.setattr(phases, "SMALLEST_BIN", phases.PARTITION_COST)
    patch.setattr(materialise, "SMALLEST_SURVEY", 1)
    patch.setattr(materialise, "SMALLEST_TASK", 1)
    patch.setattr(deduplicate, "FEW_ROWS", -1)
    patch.setattr(deduplicate, "FEW_FOUND_BYTES", -1)
    patch.setattr(audit, "FEW_TRANSACTIONS", -1)
    patch.setattr(audit_plan, "SMALLEST_TASK", 1)


def sample_lake(place: Path, engine: Spark, days: Sequence[date] = RUN_DATES) -> Digests:
    """Digests of every step and table after the runs of `days` by `engine`."""
    write_sample(place)
    for file in place.rglob("*"):
        os.utime(file, (COPIED_AT, COPIED_AT))
    settings = load_settings(place / CONFIG)
    for day in days:
        execute_run(
            settings, day, until=Step.PUBLISH, spark=engine, progress=RunProgress(Console(quiet=True))
        )
    return lake_digests(settings)


def main() -> None:
    """`PLACE MASTER`: prints the digests of the first run as JSON; a process has one master."""
    place, master = sys.argv[1:]
    with pytest.MonkeyPatch.context() as patch:
        schedule_everything(patch)
        engine = Spark(master, {"spark.driver.memory": "1g"})
        print(json.dumps(sample_lake(Path(place), engine, RUN_DATES[:1])))
        engine.stop()


if __name__ == "__main__":
    main()
