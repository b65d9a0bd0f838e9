"""Rounds of `resolve` that are handed to workers, and those that are done where they are."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.protocol.coordinator import TransactionCoordinator
from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.resolving import phases
from spark_jobs.worker import Summary, Task
from tests.in_process import InProcess
from tests.protocol.txn_cluster import PARTITIONS, TV2, Cluster, Producer
from tests.resolving.night_lake import NightLake, Resolved, end_of_day

ROUNDS = {"gather_parts", "resolve_buckets", "conclude_transactions", "carry_partitions"}
COST = (len(PARTITIONS) + 1) * phases.PARTITION_COST
"""Of the night, about: its partitions and the coordinator's."""


class Noting(InProcess):
    """Remembers which functions were not handed out."""

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
        if function.__name__ in ROUNDS and tasks:
            self.in_driver[function.__name__] = in_driver
        return super().run_tasks(function, tasks, in_driver=in_driver, **more)


def resolved(directory: Path) -> tuple[Resolved, set[str]]:
    """A committed and an open transaction; the rounds that were done where they are."""
    spark = Noting()
    cluster = Cluster(now=end_of_day(0) - 60_000, coordinator=TransactionCoordinator(transaction_version=TV2))
    for name in ("a", "b"):
        producer = Producer(name, TV2)
        cluster.init(producer)
        for partition in PARTITIONS:
            cluster.produce(producer, partition)
        if name == "a":
            cluster.end(producer, TransactionResult.COMMIT)
    lake = NightLake(directory, spark=spark)
    lake.copy_logs(cluster.logs, cluster.entries)
    night = lake.night(0)
    assert spark.in_driver.keys() == ROUNDS
    return night, {name for name, is_so in spark.in_driver.items() if is_so}


@pytest.mark.parametrize(
    ("bin_cost", "in_driver"),
    [
        pytest.param(2 * COST, ROUNDS, id="a night of less than a task"),
        pytest.param(COST * 3 // 4, ROUNDS - {"resolve_buckets"}, id="one of less than two"),
        pytest.param(COST // 4, set(), id="a larger one"),
    ],
)
def test_a_round_is_handed_out_where_that_is_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bin_cost: int, in_driver: set[str]
) -> None:
    plain, _ = resolved(tmp_path / "plain")
    monkeypatch.setattr(phases, "SMALLEST_BIN", bin_cost)
    found, done = resolved(tmp_path / "found")
    assert done == in_driver
    assert found.published == plain.published
    assert found.outcomes == plain.outcomes
