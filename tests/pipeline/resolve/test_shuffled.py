"""`resolve` writes the same bytes however Spark divides its work, and as without Spark."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.execution.shuffle import Rows, Shuffled
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.lake.run_folder import RunFolder, StepDone, read_inputs
from spark_jobs.pipeline.coordinator_logs import timelines
from spark_jobs.pipeline.resolve import parts, phases, transaction_rows
from spark_jobs.sample.broker.coordinator import TransactionCoordinator
from tests.in_process import InProcess
from tests.kafka.txn_cluster import PARTITIONS, TV0, TV2, Cluster, Producer
from tests.pipeline.resolve.run_lake import RunLake, end_of_day

SETTINGS = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled")


@pytest.fixture(autouse=True)
def _many_small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket for every few batches and a bin for every partition, none of them small."""
    monkeypatch.setattr(parts, "ROWS_PER_BUCKET", 4)
    monkeypatch.setattr(phases, "SMALLEST_BIN", 1)


class ShuffledBySpark(InProcess):
    """Tasks run in this process, shuffles by Spark."""

    def __init__(self, spark: Spark) -> None:
        super().__init__("local")
        self.shuffles = 0
        self._spark = spark

    def shuffle(self, sides: Sequence[Rows], **options: Any) -> Shuffled[Any]:
        assert not options["in_driver"]
        self.shuffles += 1
        return self._spark.shuffle(sides, **options)


@pytest.fixture(params=[("1", "true"), ("7", "false"), ("7", "true")], ids=" ".join)
def divided(spark: Spark, request: pytest.FixtureRequest) -> Iterator[ShuffledBySpark]:
    """Spark with another number of shuffle partitions, with and without adaptive execution."""
    before = [spark.session.conf.get(name) for name in SETTINGS]
    for name, value in zip(SETTINGS, request.param, strict=True):
        spark.session.conf.set(name, value)
    yield ShuffledBySpark(spark)
    for name, value in zip(SETTINGS, before, strict=True):
        spark.session.conf.set(name, str(value))


def _resolve_twice(directory: Path, spark: Spark, *, has_coordinator_log: bool = True) -> list[StepDone]:
    """Two runs: in the first some transactions are open, which the second ends or holds on."""
    cluster = Cluster(now=end_of_day(0) - 60_000, coordinator=TransactionCoordinator(transaction_version=TV2))
    producers = [Producer(f"id-{number}", TV2 if number % 2 else TV0) for number in range(9)]
    for number, producer in enumerate(producers):
        cluster.init(producer)
        for _ in range(3):
            for partition in PARTITIONS[number % 2 :]:
                cluster.produce(producer, partition)
            cluster.end(producer, TransactionResult.ABORT if number % 4 == 0 else TransactionResult.COMMIT)
    for producer in producers[:4]:
        cluster.produce(producer, PARTITIONS[0])
    lake = RunLake(directory, spark=spark)
    done = []
    for number in range(2):
        lake.copy_logs(cluster.logs, cluster.entries if has_coordinator_log else ())
        run_id = lake.run(number).run_id
        folder = RunFolder(lake.lake, read_inputs(lake.lake, run_id))
        done += [each for each in folder.steps_done() if each.step is Step.RESOLVE]
        cluster.end(producers[number], TransactionResult.COMMIT)
    return done


def test_the_same_bytes_whatever_the_shuffle_partitions(tmp_path: Path, divided: ShuffledBySpark) -> None:
    expected = _resolve_twice(tmp_path / "in_process", InProcess())
    found = _resolve_twice(tmp_path / "spark", divided)

    for own, other in zip(found, expected, strict=True):
        assert (own.counts, own.outputs, own.state) == (other.counts, other.outputs, other.state)
    assert divided.shuffles == 6
    assert found[0].counts["transactions"] > found[0].counts["published"] > 0


def test_without_a_coordinators_log_there_is_nothing_to_join_with(tmp_path: Path, spark: Spark) -> None:
    expected = _resolve_twice(tmp_path / "in_process", InProcess(), has_coordinator_log=False)
    found = _resolve_twice(tmp_path / "spark", ShuffledBySpark(spark), has_coordinator_log=False)

    assert [each.outputs for each in found] == [each.outputs for each in expected]


def test_the_same_bytes_however_many_rows_become_values_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "ROWS_PER_BUCKET", 1 << 20)
    expected = _resolve_twice(tmp_path / "many", InProcess())
    for module in (timelines, parts, transaction_rows):
        monkeypatch.setattr(module, "VALUES_AT_A_TIME", 2)
    found = _resolve_twice(tmp_path / "few", InProcess())

    assert [each.outputs for each in found] == [each.outputs for each in expected]
    assert found[0].counts["transactions"] > 2
