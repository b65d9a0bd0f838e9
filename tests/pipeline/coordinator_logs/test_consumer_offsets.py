"""Offsets that groups commit, inside transactions and outside, folded over runs (facts §5)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.sources import CONSUMER_OFFSETS as TOPIC
from spark_jobs.flow import Step
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.consumer_offsets import (
    OffsetCommitKey,
    OffsetCommitValue,
    write_key,
    write_value,
)
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.folds import read_folds
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.sample.broker.coordinator import TransactionCoordinator
from spark_jobs.tables.resolve import CONSUMER_OFFSETS
from spark_jobs.tables.states import FoldKind
from tests.kafka.txn_cluster import Cluster
from tests.pipeline.resolve.run_lake import SEGMENT, Resolved, RunLake, end_of_day
from tests.pipeline.resolve.test_resolve_cases import started

OFFSETS = TopicPartition(TOPIC, 3)
NOW = end_of_day(0) - 60_000


@pytest.fixture
def lake(tmp_path: Path) -> RunLake:
    return RunLake(tmp_path)


def commit(
    at: int, offset: int | None, *, partition: int = 0, producer: tuple[int, int] = (-1, -1), group: str = "g"
) -> bytes:
    """An offset commit in a batch of its own; without an offset, a tombstone."""
    value = None if offset is None else OffsetCommitValue(offset=offset, metadata="m", commit_timestamp=NOW)
    key = write_key(OffsetCommitKey(group=group, topic="t", partition=partition))
    return build_batch(
        records=[Record(key=key, value=None if value is None else write_value(value))],
        base_timestamp=NOW,
        base_offset=at,
        partition_leader_epoch=0,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0,
        is_transactional=producer[0] >= 0,
    )


def marker(at: int, producer: tuple[int, int], control_type: ControlType) -> bytes:
    return write_marker(
        base_offset=at,
        partition_leader_epoch=0,
        timestamp=NOW,
        producer_id=producer[0],
        producer_epoch=producer[1],
        control_type=control_type,
        coordinator_epoch=0,
    )


def run(lake: RunLake, number: int, batches: Iterable[bytes]) -> list[dict[str, Any]]:
    """The table after a run that copied these batches."""
    file = Path(lake.settings.sources[0].root, str(OFFSETS), SEGMENT)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(batches))
    return rows(lake, lake.run(number))


def rows(lake: RunLake, found: Resolved) -> list[dict[str, Any]]:
    key = step_key(found.run_id, Step.RESOLVE, CONSUMER_OFFSETS.file_of(partition=3))
    return read_table(lake.lake, key).to_pylist()


def shown(table: list[dict[str, Any]]) -> list[tuple[int, int, bool, int]]:
    return [(row["partition"], row["offset"], row["pending"], row["producer_id"]) for row in table]


def test_plain_commits_count_at_once_and_the_later_one_wins(lake: RunLake) -> None:
    table = run(lake, 0, [commit(0, 10), commit(1, 20), commit(2, 5, partition=1)])
    assert shown(table) == [(0, 20, False, -1), (1, 5, False, -1)]
    assert table[0] == {
        "group": "g",
        "topic": "t",
        "partition": 0,
        "offset": 20,
        "leader_epoch": -1,
        "metadata": "m",
        "commit_timestamp": NOW,
        "expire_timestamp": -1,
        "pending": False,
        "producer_id": -1,
        "record_offset": 1,
        "offsets_partition": 3,
    }


def test_a_transactions_offsets_are_pending_until_its_marker_comes_on_a_later_run(lake: RunLake) -> None:
    first = [commit(0, 10), commit(1, 30, producer=(7, 0)), commit(2, 40, partition=1, producer=(8, 0))]
    assert shown(run(lake, 0, first)) == [(0, 10, False, -1), (0, 30, True, 7), (1, 40, True, 8)]
    ends = [marker(3, (7, 1), ControlType.COMMIT), marker(4, (8, 1), ControlType.ABORT)]
    assert shown(run(lake, 1, [*first, *ends])) == [(0, 30, False, 7)]


def test_offsets_stay_though_their_partition_has_no_news(lake: RunLake) -> None:
    assert shown(run(lake, 0, [commit(0, 10)])) == [(0, 10, False, -1)]
    Path(lake.settings.sources[0].root, str(OFFSETS), SEGMENT).unlink()
    assert shown(rows(lake, lake.run(1))) == [(0, 10, False, -1)]


def test_a_later_plain_commit_wins_over_an_earlier_one_whose_marker_comes_after(lake: RunLake) -> None:
    log = [commit(0, 30, producer=(7, 0)), commit(1, 50), marker(2, (7, 1), ControlType.COMMIT)]
    assert shown(run(lake, 0, log)) == [(0, 50, False, -1)]


def test_a_tombstone_removes_what_counts_and_what_is_pending(lake: RunLake) -> None:
    log = [commit(0, 10), commit(1, 30, producer=(7, 0)), commit(2, None), commit(3, 9, group="h")]
    assert [row["group"] for row in run(lake, 0, log)] == ["h"]


def test_what_the_coordinator_has_decided_counts_though_the_marker_is_missing(lake: RunLake) -> None:
    cluster = Cluster(
        now=NOW - 60_000, coordinator=TransactionCoordinator(max_timeout_ms=2**31 - 1), logs={OFFSETS: []}
    )
    producer = started(cluster)
    identity = (producer.producer_id, producer.producer_epoch)
    cluster.join(producer, OFFSETS)
    cluster.end(producer, TransactionResult.COMMIT, reached=())
    lake.copy_logs({}, cluster.entries)
    assert shown(run(lake, 0, [commit(0, 30, producer=identity)])) == [(0, 30, False, 0)]


def test_records_that_are_no_offsets_are_passed_over(lake: RunLake) -> None:
    group = build_batch(
        records=[Record(key=b"\x00\x02\x00\x01g", value=b"?")], base_timestamp=NOW, base_offset=1
    )
    broken = build_batch(records=[Record(key=b"\x00\x01\x00", value=b"?")], base_timestamp=NOW, base_offset=2)
    assert shown(run(lake, 0, [commit(0, 10), group, broken])) == [(0, 10, False, -1)]
    (message,) = (m for m in lake.messages(0, "resolve") if "__consumer_offsets-3" in m)
    assert "corrupt" in message


def test_the_fold_over_two_runs_is_that_of_one(tmp_path: Path) -> None:
    log = [
        commit(0, 10),
        commit(1, 30, producer=(7, 0)),
        commit(2, 11),
        marker(3, (7, 1), ControlType.COMMIT),
        commit(4, 60, partition=2, producer=(7, 1)),
    ]
    once, twice = RunLake(tmp_path / "once"), RunLake(tmp_path / "twice")
    run(twice, 0, log[:2])
    assert run(twice, 1, log) == run(once, 1, log)
    digests = {
        read_folds(lake.lake, lake.run(1).run_id)[FoldKind.GROUP_OFFSETS, OFFSETS] for lake in (once, twice)
    }
    assert len(digests) == 1
