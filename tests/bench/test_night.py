"""The benchmark of nights does not rot: it runs on a tiny one."""

from pathlib import Path

from spark_jobs.flow import Step
from spark_jobs.protocol.segment import scan
from spark_jobs.spark_session import Spark
from tests.bench.night import measure, table
from tests.bench.night_data import Night, make_batches


def test_a_tiny_night_is_measured(tmp_path: Path, spark: Spark) -> None:
    measured = measure(tmp_path, Night(batches=160, producers=3), Step.INDEX, spark)

    assert measured.seconds[Step.INDEX] > 0
    assert table([measured]).row_count == 1


def test_synthetic_batches_are_batches_of_producers_in_sequence() -> None:
    headers = [found.header for found in scan(make_batches(3, 6, producers=3))]

    assert [header.producer_id for header in headers] == [1000, 1001, 1002] * 2
    assert [header.base_sequence for header in headers] == [1, 1, 1, 2, 2, 2]
