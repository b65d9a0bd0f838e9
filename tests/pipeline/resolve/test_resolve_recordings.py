"""Recordings through the steps until `resolve`: what a consumer got, and the broker's own offsets."""

import shutil
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.sources import CONSUMER_OFFSETS, TRANSACTION_STATE
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.kafka.coordinator.group_offsets import fold, read_events
from spark_jobs.kafka.coordinator.history import CoordinatorEntry, read_entries
from spark_jobs.kafka.formats.control_record import read_marker
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.formats.records import read_records
from spark_jobs.kafka.log.segment import scan
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import LogBatch
from spark_jobs.kafka.transactions.resolve import ResolveContext
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.pipeline.coordinator_logs.consumer_offsets import offsets_table
from tests.kafka.resolving import parts_of, resolve_all
from tests.pipeline.recorded_captures import DATA
from tests.pipeline.resolve.run_lake import COPY_TIMES, FIRST_DAY, Resolved, RunLake, end_of_day
from tests.recordings.log_directory import RecordedPartition
from tests.recordings.recording import Recording, read_recording, truth_of

BROKER = """
lake: lake
sources:
  - {{name: broker, kind: broker-log, root: "{root}", immutable: true}}
publish: {publish}
"""
TRANSACTIONAL = ("oracle_D", "oracle_E", "restarts_tv1", "restarts_tv2", "workload_clean")
PLAIN = ("oracle_A", "restarts_idem")
RECORDED = date(2026, 11, 16)


@cache
def recorded(name: str) -> Recording:
    return read_recording(DATA / name)


def resolve(directory: Path, name: str, spark: Spark, publish: str = "read_committed") -> Resolved:
    """A run long before the recording was made, so that nothing in it has timed out."""
    config = BROKER.format(root=DATA / name / "data", publish=publish)
    return RunLake(directory, config, spark).run(0)


def batches_of(partition: RecordedPartition) -> Iterator[tuple[RecordBatchHeader, bytes]]:
    """All batches of a recorded log, in order."""
    for _, data in sorted(partition.segments.items()):
        for batch in scan(data):
            assert isinstance(batch.header, RecordBatchHeader)
            yield batch.header, data[batch.position : batch.end]


def records_of(found: Resolved, name: str) -> Iterator[Mapping[str, Any]]:
    """The records that the run publishes, decoded in the plain way."""
    published = set(found.published)
    for partition, own in found.partitions.items():
        for header, batch in batches_of(recorded(name).logs.partitions[partition]):
            if (partition, header.base_offset) in published:
                yield from (
                    truth_of(partition, record)
                    for record in read_records(batch)
                    if record.offset >= own["first_offset"]
                )


@pytest.mark.parametrize("name", [*TRANSACTIONAL, *PLAIN])
def test_a_run_publishes_what_a_read_committed_consumer_got(name: str, tmp_path: Path, spark: Spark) -> None:
    found = resolve(tmp_path, name, spark)

    committed = recorded(name).committed
    assert committed is not None
    assert list(records_of(found, name)) == [row for _, rows in sorted(committed.items()) for row in rows]
    for partition, offsets in recorded(name).offsets.items():
        own = found.partitions[partition]
        stable = (own["log_start_offset"], own["log_end_offset"], own["last_stable_offset"])
        assert stable == (offsets.log_start_offset, offsets.high_watermark, offsets.last_stable_offset)
    _check_outcomes(found, name)
    _check_consumer_offsets(found, name, RunLake(tmp_path))


def _check_outcomes(found: Resolved, name: str) -> None:
    """Every transaction's outcome is that of the plain rules."""
    context = ResolveContext(now=end_of_day(0), past=end_of_day(-1), clock_skew_ms=1000)
    resolved = resolve_all(_entries(name), parts_of(_logs(name)), context)
    expected = {
        (part.topic_partition, part.first_offset): txn.outcome
        for txn in resolved
        for part in txn.parts
        if part.batch_count
    }
    assert found.outcomes == expected


def _logs(name: str) -> dict[TopicPartition, list[LogBatch]]:
    return {
        partition: [(h, read_marker(batch) if h.is_control else None) for h, batch in batches_of(log)]
        for partition, log in recorded(name).logs.partitions.items()
    }


def _entries(name: str) -> Iterator[CoordinatorEntry]:
    for partition, log in recorded(name).logs.partitions.items():
        if partition.topic == TRANSACTION_STATE:
            for header, batch in batches_of(log):
                yield from read_entries(header, read_records(batch))


def _check_consumer_offsets(found: Resolved, name: str, lake: RunLake) -> None:
    """Committed and pending offsets are those of the plain fold."""
    for partition, log in recorded(name).logs.partitions.items():
        if partition.topic == CONSUMER_OFFSETS and partition in found.partitions:
            events = (
                e for header, batch in batches_of(log) for e in read_events(header, read_records(batch))
            )
            path = f"consumer_offsets/{partition.partition:05d}.parquet"
            table = read_table(lake.lake, step_key(found.run_id, Step.RESOLVE, path))
            assert table.to_pylist() == offsets_table(fold(events), partition.partition).to_pylist()


def test_whole_transactions_are_never_more_than_a_consumer_got(tmp_path: Path, spark: Spark) -> None:
    by_partition, whole = (
        set(resolve(tmp_path / publish, "oracle_E", spark, publish).published)
        for publish in ("read_committed", "whole_transactions")
    )
    assert whole < by_partition


def test_what_is_open_is_held_until_a_copy_of_a_later_day_shows_that_it_has_timed_out(
    tmp_path: Path, spark: Spark
) -> None:
    source = shutil.copytree(DATA / "oracle_D" / "data", tmp_path / "source")
    lake = RunLake(tmp_path, BROKER.format(root=source, publish="read_committed"), spark)
    day = (RECORDED - FIRST_DAY).days

    assert lake.run(day).counts["ongoing"] == 3
    assert lake.run(day + 1).counts["ongoing"] == 3  # the same copy again
    later = (RECORDED + timedelta(days=2)).isoformat()
    times = COPY_TIMES.format(data=f"{later}T01:00:00Z", coordinator=f"{later}T01:10:00Z")
    (source / "onceover-copy.json").write_text(times)
    found = lake.run(day + 2)

    assert found.counts["ongoing"] == 0
    timed_out = [row for row in found.transactions if "timeout" in row["evidence"]]
    assert [row["outcome"] for row in timed_out] == ["aborted"] * 3
    (message,) = found.messages
    assert message.startswith("3 transactions count as aborted: their timeout had passed when ")
    assert all(own["end_offset"] == own["log_end_offset"] for own in found.partitions.values())
