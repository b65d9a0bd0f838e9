"""`__consumer_offsets` keys and values, byte for byte (facts §1.14, §1.17)."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import CorruptCoordinatorRecord
from spark_jobs.kafka.formats.consumer_offsets import (
    GroupKey,
    OffsetCommitKey,
    OffsetCommitValue,
    read_key,
    read_value,
    write_key,
    write_value,
)
from spark_jobs.kafka.formats.transaction_state import UnknownKey
from tests.kafka.coordinator_values import OFFSET_KEYS, OFFSET_VALUES
from tests.kafka.strategies import INT64, damaged

KEY = bytes.fromhex("00010002673100066f726465727300000000")
VALUE_V3 = bytes.fromhex("0003000000000000002affffffff00000000018bcfe56800")
VALUE_V4 = bytes.fromhex("0004000000000000002affffffff010000018bcfe5680000")
COMMITTED = OffsetCommitValue(offset=42, metadata="", commit_timestamp=1_700_000_000_000)


def test_the_key_names_group_topic_and_partition() -> None:
    key = OffsetCommitKey(group="g1", topic="orders", partition=0)
    assert read_key(KEY) == key
    assert write_key(key) == KEY


@pytest.mark.parametrize(("data", "version"), [(VALUE_V3, 3), (VALUE_V4, 4)])
def test_values_equal_the_golden_bytes(data: bytes, version: int) -> None:
    assert read_value(data) == COMMITTED
    assert write_value(COMMITTED, version) == data


@pytest.mark.parametrize(
    ("version", "hex_bytes"),
    [
        pytest.param(0, "0000000000000000002a00000000018bcfe56800", id="version 0"),
        pytest.param(1, "0001000000000000002a00000000018bcfe56800ffffffffffffffff", id="version 1 expires"),
        pytest.param(2, "0002000000000000002a00000000018bcfe56800", id="version 2"),
    ],
)
def test_older_versions_have_no_leader_epoch(version: int, hex_bytes: str) -> None:
    assert write_value(COMMITTED, version) == bytes.fromhex(hex_bytes)
    assert read_value(bytes.fromhex(hex_bytes)) == COMMITTED


def test_a_topic_id_and_tags_of_newer_brokers_survive() -> None:
    topic_id = bytes(range(16))
    newer = VALUE_V4[:-1] + b"\x02\x00\x10" + topic_id + b"\x05\x01z"
    value = read_value(newer)
    assert (value.topic_id, value.unknown_tags) == (topic_id, ((5, b"z"),))
    assert write_value(value) == newer


@pytest.mark.parametrize("record_type", [2, 3, 16, 10, 17])
def test_records_about_groups_are_reported_apart_by_type(record_type: int) -> None:
    data = record_type.to_bytes(2, "big") + b"\x00\x02g1rest"
    key = read_key(data)
    assert key == GroupKey(record_type=record_type, group="g1", data=b"rest")
    assert write_key(key) == data


@pytest.mark.parametrize("record_type", [9, 18, 24, 99])
def test_an_unknown_type_is_kept_as_it_is(record_type: int) -> None:
    data = record_type.to_bytes(2, "big") + b"?"
    assert read_key(data) == UnknownKey(record_type=record_type, data=b"?")
    assert write_key(read_key(data)) == data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"\x00\x05" + VALUE_V4[2:], "a value version up to 4", id="a version of the future"),
        pytest.param(VALUE_V3[:-1], "8 bytes", id="cut"),
        pytest.param(VALUE_V3 + b"\x00", "the end", id="more than a value"),
        pytest.param(VALUE_V4[:-1] + b"\x01\x00\x02ab", "a topic id of 16 bytes", id="a short topic id"),
        pytest.param(VALUE_V3[:14] + b"\xff\xff" + VALUE_V3[16:], "a string", id="null metadata"),
    ],
)
def test_bytes_outside_the_schema_are_corrupt(data: bytes, expected: str) -> None:
    with pytest.raises(CorruptCoordinatorRecord, match=expected):
        read_value(data)


@given(key=OFFSET_KEYS)
def test_reading_a_written_key_gives_the_same_key(key: OffsetCommitKey) -> None:
    assert read_key(write_key(key)) == key


@given(value=OFFSET_VALUES)
def test_reading_what_was_written_gives_the_same_value(value: OffsetCommitValue) -> None:
    assert read_value(write_value(value)) == value


@given(offset=INT64, expires=INT64)
def test_version_1_keeps_when_the_offset_expires(offset: int, expires: int) -> None:
    value = OffsetCommitValue(offset=offset, metadata="m", commit_timestamp=0, expire_timestamp=expires)
    assert read_value(write_value(value, 1)) == value


@given(data=damaged(OFFSET_VALUES.map(write_value) | st.just(VALUE_V3)))
def test_damaged_values_are_a_value_or_corrupt(data: bytes) -> None:
    with suppress(CorruptCoordinatorRecord):
        read_value(data)


@given(data=damaged(OFFSET_KEYS.map(write_key)))
def test_damaged_keys_are_a_key_or_corrupt(data: bytes) -> None:
    with suppress(CorruptCoordinatorRecord):
        read_key(data)
