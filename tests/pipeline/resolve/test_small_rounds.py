"""Phases of `resolve` that Spark runs, and those of runs too small to schedule."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.execution.python_worker import Summary, Task
from spark_jobs.execution.shuffle import Rows, Shuffled
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.pipeline.resolve import phases
from spark_jobs.sample.broker.coordinator import TransactionCoordinator
from tests.in_process import InProcess
from tests.kafka.txn_cluster import PARTITIONS, TV2, Cluster, Producer
from tests.pipeline.resolve.run_lake import Resolved, RunLake, end_of_day

PHASES = {"find_newest_markers", "bucket", "bin", "coordinator_partition"}
"""Functions of tasks, and keys of shuffles."""
COST = (len(PARTITIONS) + 1) * phases.PARTITION_COST
"""Of the run, about: its partitions and the coordinator's."""


class Noting(InProcess):
    """Remembers what was not scheduled."""

    def __init__(self) -> None:
        super().__init__("local")
        self.in_driver: dict[str, bool] = {}

    def run_tasks(
        self,
        function: Callable[[Task], Summary],
        tasks: Sequence[Task],
        *,
        in_driver: bool = False,
        **more: Any,
    ) -> list[Summary]:
        if function.__name__ in PHASES and tasks:
            self.in_driver[function.__name__] = in_driver
        return super().run_tasks(function, tasks, in_driver=in_driver, **more)

    def shuffle(
        self, sides: Sequence[Rows], *, key: str, in_driver: bool = False, **more: Any
    ) -> Shuffled[Any]:
        self.in_driver[key] = in_driver
        return super().shuffle(sides, key=key, in_driver=in_driver, **more)


def resolved(directory: Path) -> tuple[Resolved, set[str]]:
    """A committed and an open transaction; the phases that the driver did."""
    spark = Noting()
    cluster = Cluster(now=end_of_day(0) - 60_000, coordinator=TransactionCoordinator(transaction_version=TV2))
    for name in ("a", "b"):
        producer = Producer(name, TV2)
        cluster.init(producer)
        for partition in PARTITIONS:
            cluster.produce(producer, partition)
        if name == "a":
            cluster.end(producer, TransactionResult.COMMIT)
    lake = RunLake(directory, spark=spark)
    lake.copy_logs(cluster.logs, cluster.entries)
    run = lake.run(0)
    assert spark.in_driver.keys() == PHASES
    return run, {name for name, in_driver in spark.in_driver.items() if in_driver}


@pytest.mark.parametrize(
    ("bin_cost", "in_driver"),
    [
        pytest.param(2 * COST, PHASES, id="a run of less than a task"),
        pytest.param(COST * 3 // 4, PHASES - {"bucket"}, id="one of less than two"),
        pytest.param(COST // 4, set(), id="a larger one"),
    ],
)
def test_a_phase_is_scheduled_where_that_is_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bin_cost: int, in_driver: set[str]
) -> None:
    plain, _ = resolved(tmp_path / "plain")
    monkeypatch.setattr(phases, "SMALLEST_BIN", bin_cost)
    found, done_in_driver = resolved(tmp_path / "found")
    assert done_in_driver == in_driver
    assert found.published == plain.published
    assert found.outcomes == plain.outcomes
