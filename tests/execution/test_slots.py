"""How many tasks run at once: executors register late, and dynamic allocation adds and removes them."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from spark_jobs.execution import classic
from spark_jobs.execution.classic import JvmSession
from spark_jobs.execution.options import dynamic_slots

DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "20",
    "spark.executor.cores": "4",
}


@dataclass
class Cluster:
    """A session of a master whose executors register one after the other, a few at each poll."""

    options: dict[str, str] = field(default_factory=dict)
    registered: list[int] = field(default_factory=list)
    polls: int = 0
    clock: float = 0.0

    @property
    def session(self) -> SparkSession:
        return cast(SparkSession, self)

    @property
    def conf(self) -> Any:
        return self.options

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - Spark's name
        return self

    @property
    def defaultParallelism(self) -> int:  # noqa: N802 - Spark's name
        return 4 * self._executors

    def statusTracker(self) -> Any:  # noqa: N802 - Spark's name
        return self

    def getExecutorInfos(self) -> list[str]:  # noqa: N802 - Spark's name
        self.polls += 1
        return ["driver"] * (1 + self._executors)

    @property
    def _executors(self) -> int:
        return self.registered[min(self.polls, len(self.registered)) - 1] if self.polls else 0

    def monotonic(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds


def slots(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(classic, "time", cluster)
    return JvmSession("spark://10.0.0.1:7077", cluster.session).parallelism


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, 0, id="off"),
        pytest.param({**DYNAMIC, "spark.dynamicAllocation.enabled": "false"}, 0, id="said to be off"),
        pytest.param(DYNAMIC, 80, id="bounded"),
        pytest.param({**DYNAMIC, "spark.executor.cores": ""}, 20, id="one core"),
        pytest.param({**DYNAMIC, "spark.dynamicAllocation.maxExecutors": str(2**31 - 1)}, 0, id="unbounded"),
        pytest.param({"spark.dynamicAllocation.enabled": "true"}, 0, id="no bound named"),
    ],
)
def test_dynamic_allocation_counts_the_executors_that_it_may_bring(
    options: dict[str, str], expected: int
) -> None:
    assert dynamic_slots(Cluster(options).session) == expected


def test_it_counts_more_than_the_executors_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert slots(Cluster(DYNAMIC, [1]), monkeypatch) == 80


def test_tasks_are_sized_once_the_executors_that_are_named_have_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster({"spark.executor.instances": "3"}, [0] * 20 + [1] * 5 + [3])

    assert slots(cluster, monkeypatch) == 12
    assert cluster.polls == 26


def test_otherwise_once_their_number_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({}, [0, 0, 1, 1, 2])

    assert slots(cluster, monkeypatch) == 8
    assert classic.SECONDS_UNCHANGED < cluster.clock < classic.SECONDS_FOR_EXECUTORS


def test_a_cluster_without_executors_is_not_waited_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({"spark.executor.instances": "3"}, [0])

    slots(cluster, monkeypatch)

    assert classic.SECONDS_FOR_EXECUTORS <= cluster.clock < classic.SECONDS_FOR_EXECUTORS + 1


def test_a_local_master_has_its_slots_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({}, [2], polls=1)
    monkeypatch.setattr(classic, "time", cluster)

    assert JvmSession("local[8]", cluster.session).parallelism == 8
    assert cluster.polls == 1
