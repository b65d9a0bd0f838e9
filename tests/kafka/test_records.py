from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import BadCompression, InvalidRecord, LimitExceeded
from spark_jobs.kafka.formats.batch_builder import build_batch, seal
from spark_jobs.kafka.formats.limits import RecordLimits
from spark_jobs.kafka.formats.primitives import Reader, write_varint
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, Codec, TimestampType, read_header
from spark_jobs.kafka.formats.records import (
    Header,
    LogRecord,
    Record,
    read_record,
    read_records,
    read_stored_records,
    write_record,
    write_records,
)
from tests.cases.golden import TRANSACTIONAL_BATCH
from tests.kafka.strategies import CODECS, RECORDS

NOON = 1_700_000_000_000
ALL_CODECS = pytest.mark.parametrize("codec", Codec)
THREE = tuple(Record(offset_delta=delta, value=b"x" * delta) for delta in range(3))


def body_of(record: bytes) -> bytes:
    """A record's bytes after its one-byte length."""
    return record[1:]


def with_length(body: bytes) -> bytes:
    return write_varint(len(body)) + body


def read_body(body: bytes) -> Record:
    return read_record(Reader(with_length(body), error=InvalidRecord))


def test_golden_records_are_read_as_a_consumer_sees_them() -> None:
    assert tuple(read_records(TRANSACTIONAL_BATCH)) == (
        LogRecord(
            offset=0,
            timestamp=NOON,
            timestamp_type=TimestampType.CREATE_TIME,
            key=b"k",
            value=b"v",
            sequence=0,
        ),
        LogRecord(
            offset=1,
            timestamp=NOON + 1,
            timestamp_type=TimestampType.CREATE_TIME,
            key=None,
            value=None,
            headers=(Header(key="h", value=None),),
            sequence=1,
        ),
    )


@given(RECORDS)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    reader = Reader(write_record(record), error=InvalidRecord)
    assert read_record(reader) == record
    assert reader.remaining == 0


@given(st.lists(RECORDS, max_size=6), CODECS)
def test_a_batch_s_records_are_read_as_they_were_written(records: list[Record], codec: Codec) -> None:
    assert list(read_stored_records(build_batch(records=records, base_timestamp=0, codec=codec))) == records


def test_null_is_not_empty() -> None:
    records = (Record(key=None, value=b""), Record(key=b"", value=None))
    assert tuple(read_stored_records(build_batch(records=records, base_timestamp=0))) == records


def test_any_negative_length_of_key_or_value_is_null() -> None:
    body = body_of(write_record(Record()))
    assert read_body(body[:3] + write_varint(-7) + write_varint(-2) + body[5:]) == Record()


def test_header_keys_may_repeat_and_keep_their_order() -> None:
    headers = (Header(key="a", value=b"1"), Header(key="b", value=b""), Header(key="a", value=None))
    assert read_body(body_of(write_record(Record(headers=headers)))).headers == headers


def test_a_header_key_that_is_not_utf8_is_shown_with_replacement_characters() -> None:
    body = body_of(write_record(Record(headers=(Header(key="ab", value=b"v"),))))
    assert read_body(body.replace(b"ab", b"a\xff")).headers == (Header(key="a�", value=b"v"),)


@ALL_CODECS
@pytest.mark.parametrize("claimed", [1, 2, 4, 2**31 - 1])
def test_row_133_a_record_count_that_is_not_true_is_invalid(codec: Codec, claimed: int) -> None:
    batch = build_batch(records=THREE, base_timestamp=0, codec=codec)
    lying = seal(replace(read_header(batch), record_count=claimed), batch[HEADER_SIZE:])
    with pytest.raises(InvalidRecord):
        tuple(read_records(lying))


def test_a_negative_record_count_is_invalid() -> None:
    batch = seal(
        replace(read_header(TRANSACTIONAL_BATCH), record_count=-1), TRANSACTIONAL_BATCH[HEADER_SIZE:]
    )
    with pytest.raises(InvalidRecord, match="record count"):
        tuple(read_records(batch))


def test_an_empty_batch_has_no_records_whatever_its_codec_and_payload() -> None:
    header = replace(read_header(TRANSACTIONAL_BATCH), record_count=0, attributes=Codec.ZSTD)
    assert not tuple(read_records(seal(header, b"not zstd")))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "nothing at all"),
        (b"\0\0\0\1\1", "no header count"),
        (b"\0\0\0\1\1\1", "a negative header count"),
        (b"\0\0\0\1\1\4", "more headers than bytes"),
        (b"\0\0\0\1\1\0\0", "a byte too many"),
        (b"\0\0\0\x7e\1\0", "a key longer than the record"),
        (b"\0\0\0\1\x7e\0", "a value longer than the record"),
        (b"\0\0\0\1\1\2\1\1", "a header without a key"),
        (b"\0\0\x80\x80\x80\x80\x80\0\1\1\0", "an offset delta of six bytes"),
        (b"\0" + b"\x80" * 10 + b"\0\0\1\1\0", "a timestamp delta of eleven bytes"),
    ],
)
def test_a_record_that_contradicts_its_length_is_invalid(body: bytes, why: str) -> None:
    with pytest.raises(InvalidRecord):
        read_body(body)


@pytest.mark.parametrize("length", [-1, 2**31 - 1, 7])
def test_a_record_length_beyond_the_batch_is_invalid(length: int) -> None:
    with pytest.raises(InvalidRecord):
        read_record(Reader(write_varint(length) + b"\0\0\0\1\1\0", error=InvalidRecord))


def test_an_invalid_record_is_reported_with_its_position() -> None:
    good, bad = write_record(Record()), write_record(Record())[:-1]
    header = replace(read_header(TRANSACTIONAL_BATCH), record_count=2)
    with pytest.raises(InvalidRecord) as raised:
        tuple(read_records(seal(header, good + bad), source="7.log", position=1000))
    assert raised.value.source == "7.log"
    assert raised.value.position >= 1000 + HEADER_SIZE + len(good)


def test_an_invalid_record_inside_a_compressed_payload_is_reported_at_the_payload() -> None:
    batch = build_batch(records=THREE, base_timestamp=0, codec=Codec.GZIP)
    lying = seal(replace(read_header(batch), record_count=2), batch[HEADER_SIZE:])
    with pytest.raises(InvalidRecord) as raised:
        tuple(read_records(lying, position=1000))
    assert raised.value.position == 1000 + HEADER_SIZE


@pytest.mark.parametrize("codec_id", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_refused(codec_id: int) -> None:
    batch = build_batch(records=THREE, base_timestamp=0)
    unknown = seal(replace(read_header(batch), attributes=codec_id), batch[HEADER_SIZE:])
    with pytest.raises(BadCompression):
        tuple(read_records(unknown))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_a_batch_that_decompresses_beyond_the_limit_is_refused(codec: Codec) -> None:
    batch = build_batch(records=[Record(value=bytes(5000))], base_timestamp=0, codec=codec)
    with pytest.raises(LimitExceeded):
        tuple(read_records(batch, limits=RecordLimits(decompressed_bytes=4999)))
    assert len(tuple(read_records(batch, limits=RecordLimits(decompressed_bytes=5100)))) == 1


def test_a_delete_horizon_does_not_disturb_record_timestamps() -> None:
    horizon = NOON + 86_400_000
    batch = build_batch(
        records=[Record(timestamp_delta=NOON - horizon)], base_timestamp=horizon, has_delete_horizon=True
    )
    assert [record.timestamp for record in read_records(batch)] == [NOON]


def test_timestamps_wrap_at_64_bits_as_java_s_do() -> None:
    batch = build_batch(records=[Record(timestamp_delta=1)], base_timestamp=2**63 - 1, max_timestamp=0)
    assert [record.timestamp for record in read_records(batch)] == [-(2**63)]


@pytest.mark.parametrize(("base_sequence", "sequences"), [(-1, [-1, -1]), (2**31 - 1, [2**31 - 1, 0])])
def test_sequences_wrap_or_are_absent(base_sequence: int, sequences: list[int]) -> None:
    batch = build_batch(records=THREE[:2], base_timestamp=0, base_sequence=base_sequence)
    assert [record.sequence for record in read_records(batch)] == sequences


def test_records_without_a_batch_are_just_joined() -> None:
    assert write_records(THREE) == b"".join(write_record(record) for record in THREE)
