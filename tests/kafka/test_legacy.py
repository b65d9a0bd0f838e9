import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import BadCompression, BadCrc, BadLength, InvalidRecord, LimitExceeded, TornBatch
from spark_jobs.kafka.formats.compression import compress
from spark_jobs.kafka.formats.legacy import (
    check_legacy_crc,
    read_legacy_header,
    read_legacy_records,
    write_message,
)
from spark_jobs.kafka.formats.limits import RecordLimits
from spark_jobs.kafka.formats.record_batch import Codec, TimestampType
from spark_jobs.kafka.formats.records import LogRecord
from tests.cases.golden import MESSAGE_V0, MESSAGE_V1
from tests.kafka.strategies import INT64, NULLABLE
from tests.kafka.wrappers import write_wrapper

NOON = 1_700_000_000_000
LOG_APPEND = 8
CODECS = pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])


def messages(*offsets: int, magic: int = 1) -> bytes:
    return b"".join(
        write_message(offset=offset, key=None, value=b"v%d" % offset, magic=magic, timestamp=NOON + offset)
        for offset in offsets
    )


def offsets_of(batch: bytes) -> list[int]:
    return [record.offset for record in read_legacy_records(batch)]


def test_golden_messages_are_written_byte_for_byte() -> None:
    assert write_message(offset=5, key=b"k", value=b"v", magic=1, timestamp=NOON) == MESSAGE_V1
    assert write_message(offset=5, key=b"k", value=b"v", magic=0) == MESSAGE_V0


def test_golden_messages_are_read_as_a_consumer_sees_them() -> None:
    assert tuple(read_legacy_records(MESSAGE_V1)) == (
        LogRecord(offset=5, timestamp=NOON, timestamp_type=TimestampType.CREATE_TIME, key=b"k", value=b"v"),
    )
    assert tuple(read_legacy_records(MESSAGE_V0)) == (
        LogRecord(
            offset=5, timestamp=-1, timestamp_type=TimestampType.NO_TIMESTAMP_TYPE, key=b"k", value=b"v"
        ),
    )


@given(INT64, NULLABLE, NULLABLE, st.sampled_from((0, 1)), INT64)
def test_a_message_is_read_as_it_was_written(
    offset: int, key: bytes | None, value: bytes | None, magic: int, timestamp: int
) -> None:
    message = write_message(offset=offset, key=key, value=value, magic=magic, timestamp=timestamp)
    header = read_legacy_header(message)
    check_legacy_crc(message, 0, header, source="<bytes>")
    (record,) = read_legacy_records(message)
    assert (record.offset, record.key, record.value) == (offset, key, value)
    assert record.timestamp == (timestamp if magic else -1)


def test_what_later_formats_added_is_absent() -> None:
    header = read_legacy_header(MESSAGE_V1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (
        -1,
    ) * 4
    assert (header.has_producer_id, header.is_transactional, header.is_control) == (False,) * 3
    assert (header.last_offset, header.next_offset, header.max_timestamp) == (5, 6, NOON)


@CODECS
def test_a_wrapper_of_magic_1_gives_relative_offsets_so_that_the_last_is_its_own(codec: Codec) -> None:
    assert offsets_of(write_wrapper(messages(0, 1, 2), offset=12, codec=codec)) == [10, 11, 12]


@CODECS
def test_compaction_may_have_removed_messages_from_a_wrapper(codec: Codec) -> None:
    assert offsets_of(write_wrapper(messages(1, 4), offset=14, codec=codec)) == [11, 14]


@CODECS
def test_a_wrapper_of_magic_0_holds_absolute_offsets(codec: Codec) -> None:
    wrapper = write_wrapper(messages(10, 11, magic=0), offset=11, codec=codec, magic=0)
    assert offsets_of(wrapper) == [10, 11]
    assert {record.timestamp for record in read_legacy_records(wrapper)} == {-1}


def test_a_wrapper_at_offset_0_leaves_inner_offsets_as_they_are() -> None:
    assert offsets_of(write_wrapper(messages(0, 1, 2), offset=0, codec=Codec.GZIP)) == [0, 1, 2]


def test_inner_timestamps_are_their_own_unless_the_wrapper_has_log_append_time() -> None:
    own = write_wrapper(messages(0, 1), offset=1, codec=Codec.GZIP, timestamp=NOON + 9)
    stamped = write_wrapper(
        messages(0, 1), offset=1, codec=Codec.GZIP, timestamp=NOON + 9, attributes=LOG_APPEND
    )
    assert [record.timestamp for record in read_legacy_records(own)] == [NOON, NOON + 1]
    assert [record.timestamp for record in read_legacy_records(stamped)] == [NOON + 9] * 2
    assert {record.timestamp_type for record in read_legacy_records(stamped)} == {
        TimestampType.LOG_APPEND_TIME
    }


def test_a_message_cut_off_at_the_end_of_a_wrapper_is_not_there() -> None:
    wrapper = write_wrapper(messages(0, 1, 2)[:-1], offset=11, codec=Codec.GZIP)
    assert offsets_of(wrapper) == [10, 11]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(messages(0)[:-1], id="less than a message"),
        pytest.param(write_wrapper(messages(0), offset=0, codec=Codec.GZIP), id="another wrapper"),
        pytest.param(messages(0)[:-6] + b"\0\0\0\x09v0", id="a value longer than its message"),
    ],
)
def test_a_wrapper_must_hold_plain_messages(content: bytes) -> None:
    with pytest.raises(InvalidRecord) as raised:
        offsets_of(write_wrapper(content, offset=3, codec=Codec.GZIP))
    assert raised.value.position == 0


def test_a_wrapper_s_offset_must_not_be_below_its_last_message_s() -> None:
    with pytest.raises(InvalidRecord, match="wrapper offset of 4 or more, found 3"):
        offsets_of(write_wrapper(messages(1, 4), offset=3, codec=Codec.GZIP))


@pytest.mark.parametrize("size", [-1, 13])
def test_an_inner_message_shorter_than_any_is_refused(size: int) -> None:
    content = bytes(8) + size.to_bytes(4, "big", signed=True) + bytes(40)
    with pytest.raises(BadLength):
        offsets_of(write_wrapper(content, offset=3, codec=Codec.GZIP))


def test_a_compressed_null_is_invalid() -> None:
    with pytest.raises(InvalidRecord, match="null"):
        offsets_of(write_message(offset=0, key=None, value=None, attributes=Codec.GZIP))


def test_old_formats_know_no_zstd() -> None:
    payload = compress(Codec.ZSTD, messages(0))
    with pytest.raises(BadCompression):
        offsets_of(write_message(offset=0, key=None, value=payload, attributes=Codec.ZSTD))


def test_a_wrapper_that_decompresses_beyond_the_limit_is_refused() -> None:
    wrapper = write_wrapper(write_message(offset=0, key=None, value=bytes(9000)), offset=0, codec=Codec.LZ4)
    with pytest.raises(LimitExceeded):
        tuple(read_legacy_records(wrapper, limits=RecordLimits(decompressed_bytes=1000)))


@pytest.mark.parametrize("kept", [0, 11, 25, 35])
def test_a_message_cut_off_is_torn(kept: int) -> None:
    with pytest.raises(TornBatch):
        read_legacy_header(MESSAGE_V1[:kept])


def test_a_wrong_crc32_is_refused() -> None:
    damaged = MESSAGE_V0[:-1] + b"w"
    with pytest.raises(BadCrc):
        check_legacy_crc(damaged, 0, read_legacy_header(damaged), source="0.log")
