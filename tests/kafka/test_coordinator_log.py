"""`__transaction_state` keys and values, byte for byte (facts §1.13, §1.17)."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import CorruptCoordinatorRecord
from spark_jobs.kafka.formats.transaction_state import (
    TopicPartitions,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    UnknownKey,
    read_key,
    read_value,
    value_version,
    write_key,
    write_value,
)
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.kafka.coordinator_values import VALUES
from tests.kafka.strategies import damaged

KEY = bytes.fromhex("000000066d792d74786e")
ONGOING_V0 = bytes.fromhex(
    "00000000000000000fa000060000ea60010000000100066f72646572730000000200000000000000010000018bcfe569f4"
    "0000018bcfe56800"
)
ONGOING_TV2 = bytes.fromhex(
    "00010000000000000fa000060000ea600102076f7264657273030000000000000001000000018bcfe569f40000018bcfe56800"
    "0200080000000000000fa002020002"
)
EMPTY = bytes.fromhex("00010000000000000fa000070000ea6000000000018bcfe569f4ffffffffffffffff00")
OVERFLOW = bytes.fromhex(
    "00010000000000000fa07fff0000ea600202076f7264657273030000000000000001000000018bcfe569f40000018bcfe56800"
    "0300080000000000000fa00108000000000000138902020002"
)
ORDERS = (TopicPartitions(topic="orders", partition_ids=(0, 1)),)


ONGOING = TransactionLogValue(
    producer_id=4000,
    producer_epoch=6,
    transaction_timeout_ms=60_000,
    transaction_status=TransactionState.ONGOING,
    transaction_partitions=ORDERS,
    transaction_last_update_timestamp_ms=1_700_000_000_500,
    transaction_start_timestamp_ms=1_700_000_000_000,
)


def test_the_key_is_the_transactional_id() -> None:
    assert read_key(KEY) == TransactionLogKey(transactional_id="my-txn")
    assert write_key(TransactionLogKey(transactional_id="my-txn")) == KEY


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(ONGOING_V0, ONGOING, id="version 0"),
        pytest.param(
            ONGOING_TV2,
            replace(ONGOING, previous_producer_id=4000, client_transaction_version=2),
            id="version 1 of 4.3.1",
        ),
        pytest.param(
            EMPTY,
            TransactionLogValue(
                producer_id=4000,
                producer_epoch=7,
                transaction_timeout_ms=60_000,
                transaction_status=TransactionState.EMPTY,
                transaction_partitions=None,
                transaction_last_update_timestamp_ms=1_700_000_000_500,
            ),
            id="empty has no partitions and no start",
        ),
        pytest.param(
            OVERFLOW,
            TransactionLogValue(
                producer_id=4000,
                producer_epoch=32767,
                transaction_timeout_ms=60_000,
                transaction_status=TransactionState.PREPARE_COMMIT,
                transaction_partitions=ORDERS,
                transaction_last_update_timestamp_ms=1_700_000_000_500,
                transaction_start_timestamp_ms=1_700_000_000_000,
                previous_producer_id=4000,
                next_producer_id=5001,
                client_transaction_version=2,
            ),
            id="the last epoch names the next producer id",
        ),
    ],
)
def test_values_equal_the_golden_bytes(data: bytes, expected: TransactionLogValue) -> None:
    assert read_value(data) == expected
    assert write_value(expected, value_version(data)) == data


def test_partitions_are_those_of_all_topics() -> None:
    assert read_value(ONGOING_TV2).topic_partitions == {
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    }


def test_a_list_of_partitions_means_nothing_in_an_empty_state() -> None:
    odd = bytearray(ONGOING_V0)
    odd[16] = TransactionState.EMPTY
    assert read_value(bytes(odd)).topic_partitions == frozenset()


def test_states_have_the_names_that_kafkas_tools_print() -> None:
    names = "Empty Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort Dead PrepareEpochFence"
    assert [state.label for state in TransactionState] == names.split()


def test_tags_of_newer_brokers_survive_reading_and_writing() -> None:
    value = replace(ONGOING, client_transaction_version=2)
    newer = write_value(value)[:-5] + bytes.fromhex("02020200020902beef")
    assert read_value(newer).unknown_tags == ((9, b"\xbe\xef"),)
    assert write_value(read_value(newer)) == newer


def test_version_0_has_no_room_for_tags() -> None:
    assert read_value(write_value(replace(ONGOING, client_transaction_version=2), 0)) == ONGOING


def test_row_145_a_key_of_unknown_type_is_kept_as_it_is() -> None:
    assert read_key(b"\x00\x07rest") == UnknownKey(record_type=7, data=b"rest")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", "2 bytes", id="nothing"),
        pytest.param(b"\x00\x02" + EMPTY[2:], "a value version up to 1", id="a version of the future"),
        pytest.param(b"\xff\xff" + EMPTY[2:], "a value version up to 1", id="a negative version"),
        pytest.param(
            EMPTY[:16] + b"\x08" + EMPTY[17:], "a transaction status from 0 to 7", id="unknown status"
        ),
        pytest.param(EMPTY[:-1], "a varint", id="no tag section"),
        pytest.param(EMPTY + b"\x00", "the end", id="more than a value"),
        pytest.param(EMPTY[:-1] + b"\x01\x00\x04abcd", "8 bytes of tag 0", id="a producer id of four bytes"),
        pytest.param(EMPTY[:17] + b"\xff\xff\xff\xff\x0f", "items", id="four billion topics"),
    ],
)
def test_bytes_outside_the_schema_are_reported_with_their_place(data: bytes, expected: str) -> None:
    with pytest.raises(CorruptCoordinatorRecord, match=expected):
        read_value(data, source="__transaction_state-0")


@pytest.mark.parametrize("data", [b"\x00", b"\x00\x00\xff\xff", b"\x00\x00\x00\x01\xff", KEY + b"\x00"])
def test_malformed_keys_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptCoordinatorRecord):
        read_key(data)


@given(value=VALUES)
def test_reading_what_was_written_gives_the_same_value(value: TransactionLogValue) -> None:
    assert read_value(write_value(value)) == value


@given(transactional_id=st.text(max_size=30))
def test_reading_a_written_key_gives_the_same_id(transactional_id: str) -> None:
    key = TransactionLogKey(transactional_id=transactional_id)
    assert read_key(write_key(key)) == key


@given(data=damaged(VALUES.map(write_value)))
def test_damaged_values_are_a_value_or_corrupt(data: bytes) -> None:
    with suppress(CorruptCoordinatorRecord):
        read_value(data)


@given(data=damaged(st.just(KEY)))
def test_damaged_keys_are_a_key_or_corrupt(data: bytes) -> None:
    with suppress(CorruptCoordinatorRecord):
        read_key(data)
