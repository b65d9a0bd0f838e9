"""Offsets committed by groups, inside transactions and outside (facts §5, §9 rows 159-162)."""

import pytest

from spark_jobs.kafka.coordinator.group_offsets import (
    GroupOffsets,
    OffsetCommit,
    OffsetsMarker,
    StoredOffset,
    fold,
    read_events,
)
from spark_jobs.kafka.errors import CorruptCoordinatorRecord, KafkaError
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.consumer_offsets import (
    OffsetCommitKey,
    OffsetCommitValue,
    write_key,
    write_value,
)
from spark_jobs.kafka.formats.record_batch import read_header
from spark_jobs.kafka.formats.records import Record, read_records
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.kafka.broker_batches import abort_batch, commit_batch, compacted_batch

ORDERS = TopicPartition("orders", 0)
OTHERS = TopicPartition("others", 0)
COMMIT_5 = OffsetsMarker(producer_id=5, is_commit=True)
ABORT_6 = OffsetsMarker(producer_id=6, is_commit=False)


def offset_value(offset: int) -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)


def commit(
    offset: int | None, *, at: int, pid: int = -1, partition: TopicPartition = ORDERS, group: str = "g"
) -> OffsetCommit:
    value = None if offset is None else offset_value(offset)
    return OffsetCommit(
        group=group, topic_partition=partition, producer_id=pid, record_offset=at, value=value
    )


def offsets(state: GroupOffsets) -> dict[TopicPartition, int]:
    return {partition: stored.value.offset for (_, partition), stored in state.committed.items()}


TRANSACTIONAL = (commit(99, at=0), commit(100, at=1, pid=5), commit(7, at=2, pid=6, partition=OTHERS))


def test_row_159_a_producers_offsets_count_from_its_commit_marker() -> None:
    before = fold(TRANSACTIONAL)
    assert offsets(before) == {ORDERS: 99}
    assert set(before.pending) == {5, 6}
    after = fold([COMMIT_5, ABORT_6, OffsetsMarker(producer_id=77, is_commit=True)], before=before)
    assert offsets(after) == {ORDERS: 100}
    assert after.pending == {}


def test_row_160_a_later_plain_commit_is_not_overwritten_by_an_older_one_in_a_transaction() -> None:
    state = fold([commit(100, at=1, pid=5), commit(101, at=2), COMMIT_5])
    assert offsets(state) == {ORDERS: 101}


def test_a_transactional_commit_after_a_plain_one_wins() -> None:
    assert offsets(fold([commit(101, at=1), commit(100, at=2, pid=5), COMMIT_5])) == {ORDERS: 100}


def test_row_161_a_tombstone_removes_what_is_pending_too() -> None:
    state = fold([*TRANSACTIONAL, commit(None, at=3), COMMIT_5])
    assert offsets(state) == {}
    assert set(state.pending) == {6}


@pytest.mark.parametrize(
    ("require_stable", "expected"),
    [
        (True, KafkaError.UNSTABLE_OFFSET_COMMIT),
        (False, StoredOffset(value=offset_value(99), record_offset=0, producer_id=-1)),
    ],
)
def test_row_162_a_pending_offset_prevents_a_stable_fetch(
    require_stable: bool, expected: StoredOffset | KafkaError
) -> None:
    assert fold(TRANSACTIONAL).fetch(("g", ORDERS), require_stable=require_stable) == expected


def test_what_is_not_pending_is_stable() -> None:
    assert fold([commit(1, at=0)]).fetch(("g", OTHERS), require_stable=True) is None


def test_one_marker_ends_the_offsets_of_all_groups_of_the_producer() -> None:
    state = fold([commit(1, at=0, pid=5, group="a"), commit(2, at=1, pid=5, group="b"), COMMIT_5])
    assert set(state.committed) == {("a", ORDERS), ("b", ORDERS)}


def test_folding_leaves_the_state_before_as_it_was() -> None:
    before = fold(TRANSACTIONAL)
    copy = fold(TRANSACTIONAL)
    fold([COMMIT_5, commit(None, at=9)], before=before)
    assert before == copy


def test_folding_in_two_runs_is_folding_in_one() -> None:
    happened: list[OffsetCommit | OffsetsMarker] = [
        *TRANSACTIONAL,
        commit(None, at=3, partition=OTHERS),
        COMMIT_5,
        commit(5, at=6),
        ABORT_6,
    ]
    for cut in range(len(happened)):
        assert fold(happened[cut:], before=fold(happened[:cut])) == fold(happened)


# -- from the log's bytes ----------------------------------------------------------------------------------


def offsets_batch(*records: Record, pid: int = -1) -> bytes:
    """As the group coordinator writes them: from sequence 0, for every producer."""
    return build_batch(
        records=records,
        base_timestamp=0,
        base_offset=10,
        producer_id=pid,
        producer_epoch=-1 if pid < 0 else 3,
        base_sequence=0,
        is_transactional=pid >= 0,
    )


def events(batch: bytes) -> list[OffsetCommit | OffsetsMarker]:
    return list(read_events(read_header(batch), read_records(batch)))


def test_a_batch_holds_commits_tombstones_and_records_that_mean_nothing_here() -> None:
    key = write_key(OffsetCommitKey(group="g", topic="orders", partition=0))
    batch = offsets_batch(
        Record(offset_delta=0, key=key, value=write_value(offset_value(3))),
        Record(offset_delta=1, key=b"\x00\x02\x00\x01g", value=b"group metadata"),
        Record(offset_delta=2, key=b"\x00\x63whatever", value=None),
        Record(offset_delta=3, key=key, value=None),
        pid=5,
    )
    assert events(batch) == [commit(3, at=10, pid=5), commit(None, at=13, pid=5)]


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        pytest.param(commit_batch(pid=5), [COMMIT_5], id="commit"),
        pytest.param(abort_batch(pid=6), [ABORT_6], id="abort"),
        pytest.param(compacted_batch(last_delta=0), [], id="an empty batch says nothing"),
    ],
)
def test_markers_end_what_is_pending(batch: bytes, expected: list[OffsetsMarker]) -> None:
    assert events(batch) == expected


def test_a_record_without_a_key_is_corrupt() -> None:
    with pytest.raises(CorruptCoordinatorRecord, match="expected a key"):
        events(offsets_batch(Record(key=None, value=b"")))
