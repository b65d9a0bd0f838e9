"""Folding `__transaction_state` (facts §3.1, §9 rows 143-146)."""

import pytest

from spark_jobs.kafka.coordinator.history import (
    CoordinatorEntry,
    CoordinatorRecord,
    UnreadableRecord,
    current_values,
    fold,
    read_entries,
)
from spark_jobs.kafka.errors import CorruptCoordinatorRecord
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.record_batch import read_header
from spark_jobs.kafka.formats.records import Record, read_records
from spark_jobs.kafka.formats.transaction_state import (
    TransactionLogKey,
    TransactionState,
    write_key,
    write_value,
)
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.kafka.broker_batches import commit_batch
from tests.kafka.coordinator_values import ORDERS_0, history, value

ONGOING, EMPTY = TransactionState.ONGOING, TransactionState.EMPTY
MORE = (ORDERS_0, TopicPartition("orders", 1), TopicPartition("bills", 3))


def test_row_143_the_latest_record_of_each_id_wins() -> None:
    one = history(
        value(ONGOING, ORDERS_0),
        value(ONGOING, *MORE),
        value(TransactionState.PREPARE_COMMIT, *MORE),
        transactional_id="one",
    )
    two = history(
        value(ONGOING, ORDERS_0),
        value(TransactionState.PREPARE_ABORT, ORDERS_0),
        value(TransactionState.COMPLETE_ABORT),
        value(EMPTY, epoch=1),
        transactional_id="two",
        first_offset=3,
    )
    state = fold([*one, *two])
    assert current_values(state) == {"one": one[-1].value, "two": two[-1].value}
    assert state.history == {"one": one, "two": two}


def test_row_144_a_tombstone_removes_the_id_and_a_later_record_brings_it_back() -> None:
    entries = history(value(EMPTY), None, value(EMPTY, pid=9))
    assert fold(entries[:2]).current == {}
    assert fold(entries).current == {"id": entries[2]}


def entries_of(*records: Record, leader_epoch: int = 7) -> list[CoordinatorEntry]:
    batch = build_batch(
        records=records, base_timestamp=0, base_offset=40, partition_leader_epoch=leader_epoch
    )
    return list(read_entries(read_header(batch), read_records(batch), source="__transaction_state-3"))


KEY = write_key(TransactionLogKey(transactional_id="id"))


def test_a_record_has_its_offset_and_the_coordinator_epoch() -> None:
    stored = value(ONGOING, ORDERS_0)
    found = entries_of(Record(key=KEY, value=write_value(stored)), Record(offset_delta=1, key=KEY))
    assert found == [
        CoordinatorRecord(transactional_id="id", offset=40, coordinator_epoch=7, value=stored),
        CoordinatorRecord(transactional_id="id", offset=41, coordinator_epoch=7, value=None),
    ]


def test_row_145_records_of_unknown_type_are_ignored() -> None:
    assert len(entries_of(Record(key=b"\x00\x05?"), Record(offset_delta=1, key=KEY))) == 1


def test_row_146_an_empty_batch_says_nothing() -> None:
    assert entries_of() == []


def test_a_marker_on_the_coordinators_own_log_says_nothing() -> None:
    marker = commit_batch()
    assert list(read_entries(read_header(marker), read_records(marker))) == []


def test_a_value_that_cannot_be_read_leaves_the_id_unknown_and_names_its_position() -> None:
    (entry,) = entries_of(Record(key=KEY, value=b"\x00\x63"))
    assert isinstance(entry, UnreadableRecord)
    assert (entry.transactional_id, entry.offset) == ("id", 40)
    assert "__transaction_state-3, offset 40" in entry.problem
    assert current_values(fold([*history(value(EMPTY)), entry])) == {}


def test_a_record_without_a_key_is_corrupt() -> None:
    with pytest.raises(CorruptCoordinatorRecord, match="expected a key"):
        entries_of(Record(key=None, value=b""))
