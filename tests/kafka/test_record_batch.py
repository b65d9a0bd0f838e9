import pickle
from dataclasses import replace

import pytest
from hypothesis import given

from spark_jobs.kafka.errors import BadCrc, BadLength, BadMagic, CorruptData, TornBatch
from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.record_batch import (
    HEADER_SIZE,
    Codec,
    RecordBatchHeader,
    TimestampType,
    assign_offset,
    check_batch,
    crc32c,
    read_header,
    set_max_timestamp,
    write_header,
)
from spark_jobs.kafka.formats.records import Header, Record, read_records
from tests.cases.formats import patched
from tests.cases.golden import COMMIT_MARKER, TRANSACTIONAL_BATCH
from tests.kafka.strategies import BATCHES

NOON = 1_700_000_000_000


def header_of(**fields: int) -> RecordBatchHeader:
    return replace(read_header(TRANSACTIONAL_BATCH), **fields)


def test_crc32c_is_castagnoli_whatever_the_buffer_and_its_length() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    large = bytes(range(256)) * 1000
    assert crc32c(memoryview(large)) == crc32c(large)
    assert crc32c(memoryview(b"")) == crc32c(b"") == 0


def test_golden_batch_is_built_byte_for_byte() -> None:
    batch = build_batch(
        records=(
            Record(key=b"k", value=b"v"),
            Record(offset_delta=1, timestamp_delta=1, headers=(Header(key="h", value=None),)),
        ),
        base_timestamp=NOON,
        partition_leader_epoch=0,
        producer_id=4000,
        producer_epoch=6,
        base_sequence=0,
        is_transactional=True,
    )
    assert batch == TRANSACTIONAL_BATCH


def test_golden_batch_is_read_field_for_field() -> None:
    header = check_batch(TRANSACTIONAL_BATCH)
    assert (header.base_offset, header.last_offset, header.next_offset) == (0, 1, 2)
    assert (header.size, header.record_count, header.codec_id) == (80, 2, Codec.NONE)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 6, 0)
    assert (header.base_timestamp, header.max_timestamp) == (NOON, NOON + 1)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.last_sequence == 1
    assert header.is_transactional
    assert not header.is_control
    assert not header.has_delete_horizon


@given(BATCHES)
def test_a_header_is_written_as_it_was_read(batch: bytes) -> None:
    assert write_header(read_header(batch)) == batch[:HEADER_SIZE]


@given(BATCHES)
def test_what_the_builder_builds_is_valid_and_sealed(batch: bytes) -> None:
    header = check_batch(batch)
    assert header.size == len(batch)
    assert seal(replace(header, batch_length=0, crc=0), batch[HEADER_SIZE:]) == batch


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", TornBatch),
        (TRANSACTIONAL_BATCH[:60], TornBatch),
        (TRANSACTIONAL_BATCH[:-1], TornBatch),
        (patched(TRANSACTIONAL_BATCH, 8, b"\0\0\0\x30"), BadLength),
        (patched(TRANSACTIONAL_BATCH, 8, b"\xff\xff\xff\xff"), BadLength),
        (patched(TRANSACTIONAL_BATCH, 16, b"\1"), BadMagic),
        (patched(TRANSACTIONAL_BATCH, 16, b"\3"), BadMagic),
        (patched(TRANSACTIONAL_BATCH, 43, b"\1"), BadCrc),
    ],
)
def test_a_damaged_batch_is_refused_by_its_first_fault(data: bytes, error: type[CorruptData]) -> None:
    with pytest.raises(error) as raised:
        check_batch(data, source="capture-7")
    assert raised.value.source == "capture-7"


def test_errors_survive_pickling_with_their_fields() -> None:
    with pytest.raises(BadCrc) as raised:
        check_batch(patched(TRANSACTIONAL_BATCH, 43, b"\1"), source="s3://bucket/object")
    restored = pickle.loads(pickle.dumps(raised.value))
    assert type(restored) is BadCrc
    assert str(restored) == str(raised.value)
    assert (restored.source, restored.position) == ("s3://bucket/object", 0)


def test_a_batch_is_checked_in_place() -> None:
    data = b"x" * 5 + TRANSACTIONAL_BATCH + COMMIT_MARKER
    assert check_batch(data, 5).producer_epoch == 6
    assert check_batch(memoryview(data), 85, len(data)).is_control
    with pytest.raises(TornBatch):
        check_batch(data, 5, 84)


def test_a_leader_places_a_batch_without_touching_what_the_crc_covers() -> None:
    placed = assign_offset(TRANSACTIONAL_BATCH, base_offset=42, partition_leader_epoch=7)
    header = check_batch(placed)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (42, 43, 7)
    assert placed[16:] == TRANSACTIONAL_BATCH[16:]


def test_log_append_time_rules_every_record_of_the_batch() -> None:
    stamped = set_max_timestamp(TRANSACTIONAL_BATCH, TimestampType.LOG_APPEND_TIME, NOON + 500)
    assert check_batch(stamped).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in read_records(stamped)] == [NOON + 500] * 2
    assert stamped[HEADER_SIZE:] == TRANSACTIONAL_BATCH[HEADER_SIZE:]


def test_a_timestamp_that_is_already_there_changes_no_byte() -> None:
    stray_bits = seal(header_of(attributes=0x1290), TRANSACTIONAL_BATCH[HEADER_SIZE:])
    assert set_max_timestamp(stray_bits, TimestampType.CREATE_TIME, NOON + 1) == stray_bits


def test_a_new_timestamp_clears_attribute_bits_that_mean_nothing() -> None:
    stray_bits = seal(header_of(attributes=0x12D0), TRANSACTIONAL_BATCH[HEADER_SIZE:])
    assert check_batch(set_max_timestamp(stray_bits, TimestampType.CREATE_TIME, NOON)).attributes == 0x50
    assert check_batch(set_max_timestamp(stray_bits, TimestampType.LOG_APPEND_TIME, NOON)).attributes == 0x58


def test_the_high_byte_of_the_attributes_is_ignored() -> None:
    header = header_of(attributes=0x7F10)
    assert (header.codec_id, header.is_transactional, header.is_control) == (0, True, False)


def test_the_last_sequence_wraps_and_is_absent_without_a_first() -> None:
    assert header_of(base_sequence=2**31 - 1, last_offset_delta=1).last_sequence == 0
    assert header_of(base_sequence=-1, last_offset_delta=5).last_sequence == -1


def test_compaction_keeps_the_offset_range_whatever_it_removes() -> None:
    batch = build_batch(
        records=[Record(offset_delta=3, value=b"kept")],
        base_timestamp=NOON,
        base_offset=20,
        last_offset_delta=6,
        base_sequence=0,
    )
    header = check_batch(batch)
    assert (header.record_count, header.last_offset, header.last_sequence) == (1, 26, 6)
    assert [(record.offset, record.sequence) for record in read_records(batch)] == [(23, 3)]


def test_offsets_wrap_at_64_bits_as_java_s_do() -> None:
    header = header_of(base_offset=2**63 - 1, last_offset_delta=1)
    assert (header.last_offset, header.next_offset) == (-(2**63), -(2**63) + 1)
