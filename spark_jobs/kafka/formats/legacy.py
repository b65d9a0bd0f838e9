"""Messages of magic 0 and 1 (facts §1.6): no producer ids; a compressed message wraps others."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from struct import Struct
from typing import ClassVar

from spark_jobs.kafka.errors import BadCrc, BadLength, InvalidRecord, TornBatch
from spark_jobs.kafka.formats.compression import decompress
from spark_jobs.kafka.formats.limits import DEFAULT_LIMITS, RecordLimits
from spark_jobs.kafka.formats.primitives import Reader, to_int64
from spark_jobs.kafka.formats.record_batch import (
    CODEC_MASK,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    Codec,
    TimestampType,
)
from spark_jobs.kafka.formats.records import LogRecord

_PREFIX = Struct(">qiIbb")  # offset, size, CRC-32 from magic to the end, magic, attributes
_TIMESTAMP = Struct(">q")
_LENGTH = Struct(">i")
_CRC_START = 16
_KEY_START_V0, _KEY_START_V1 = 6, 14
"""After the size field: CRC, magic, attributes and, since v1, the timestamp."""
_OVERHEAD_V0, _OVERHEAD_V1 = 14, 22
"""Smallest sizes after the size field: no key, no value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyHeader:
    """One message up to its key; what later formats added reads as absent.

    `offset` is the last one inside: a wrapper's first offset is known only after decompression.
    """

    offset: int
    message_size: int
    crc: int
    magic: int
    attributes: int
    timestamp: int = NO_TIMESTAMP

    partition_leader_epoch: ClassVar[int] = NO_PARTITION_LEADER_EPOCH
    producer_id: ClassVar[int] = NO_PRODUCER_ID
    producer_epoch: ClassVar[int] = NO_PRODUCER_EPOCH
    base_sequence: ClassVar[int] = NO_SEQUENCE
    last_sequence: ClassVar[int] = NO_SEQUENCE
    has_producer_id: ClassVar[bool] = False
    is_transactional: ClassVar[bool] = False
    is_control: ClassVar[bool] = False
    has_delete_horizon: ClassVar[bool] = False

    @property
    def size(self) -> int:
        """Bytes of the whole message."""
        return LOG_OVERHEAD + self.message_size

    @property
    def codec_id(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        log_append = self.attributes & TIMESTAMP_TYPE_FLAG
        return TimestampType.LOG_APPEND_TIME if log_append else TimestampType.CREATE_TIME

    @property
    def max_timestamp(self) -> int:
        return self.timestamp

    @property
    def last_offset(self) -> int:
        return self.offset

    @property
    def next_offset(self) -> int:
        return self.offset + 1


def read_legacy_header(
    data: bytes | memoryview, *, source: str = "<bytes>", position: int = 0
) -> LegacyHeader:
    """The header of the message that `data` begins with, once the whole message is there."""
    if len(data) < LOG_OVERHEAD + _OVERHEAD_V0:
        raise TornBatch(
            source=source, position=position, expected=f"{LOG_OVERHEAD + _OVERHEAD_V0} bytes", found=len(data)
        )
    offset, message_size, crc, magic, attributes = _PREFIX.unpack_from(data)
    smallest = _OVERHEAD_V0 if magic == 0 else _OVERHEAD_V1
    if message_size < smallest:
        raise BadLength(
            source=source,
            position=position + LENGTH_OFFSET,
            expected=f"{smallest} or more",
            found=message_size,
        )
    if message_size > len(data) - LOG_OVERHEAD:
        raise TornBatch(
            source=source, position=position, expected=f"{LOG_OVERHEAD + message_size} bytes", found=len(data)
        )
    timestamp = NO_TIMESTAMP if magic == 0 else _TIMESTAMP.unpack_from(data, _PREFIX.size)[0]
    return LegacyHeader(
        offset=offset,
        message_size=message_size,
        crc=crc,
        magic=magic,
        attributes=attributes,
        timestamp=timestamp,
    )


def check_legacy_crc(data: bytes | memoryview, position: int, header: LegacyHeader, *, source: str) -> None:
    """Raises if the message at `position` does not match its checksum."""
    found = zlib.crc32(memoryview(data)[position + _CRC_START : position + header.size])
    if found != header.crc:
        raise BadCrc(source=source, position=position, expected=f"{header.crc:#010x}", found=f"{found:#010x}")


def read_legacy_records(
    batch: bytes | memoryview,
    *,
    limits: RecordLimits = DEFAULT_LIMITS,
    source: str = "<bytes>",
    position: int = 0,
) -> Iterator[LogRecord]:
    """The record of the message at the start of `batch`, or those that it wraps, with absolute offsets."""
    header = read_legacy_header(batch, source=source, position=position)
    outer = _read_message(
        header, Reader(batch, end=header.size, error=InvalidRecord, source=source, origin=position)
    )
    if header.codec_id == Codec.NONE:
        yield outer
        return
    if outer.value is None:
        raise InvalidRecord(source=source, position=position, expected="compressed messages", found="null")
    inner = decompress(
        header.codec_id,
        outer.value,
        magic=header.magic,
        limit=limits.decompressed_bytes,
        source=source,
        position=position,
    )
    yield from _unwrap(header, memoryview(inner), source, position)


def _read_message(header: LegacyHeader, reader: Reader) -> LogRecord:
    """The message's record; `reader` is at its first byte."""
    reader.advance(LOG_OVERHEAD + (_KEY_START_V0 if header.magic == 0 else _KEY_START_V1))
    return LogRecord(
        offset=header.offset,
        timestamp=header.timestamp,
        timestamp_type=header.timestamp_type,
        key=_read_nullable(reader),
        value=_read_nullable(reader),
    )


def _read_nullable(reader: Reader) -> bytes | None:
    size = reader.read_int32()
    return None if size < 0 else reader.read_bytes(size)


def _unwrap(wrapper: LegacyHeader, data: memoryview, source: str, position: int) -> Iterator[LogRecord]:
    base = _base_offset(wrapper, data, source, position)
    for start, inner in _inner_messages(data, source, position):
        if inner.codec_id:
            raise InvalidRecord(
                source=source, position=position, expected="a plain message", found="a wrapper"
            )
        message = data[start : start + inner.size]
        reader = Reader(message, error=InvalidRecord, source=source, origin=position, in_place=False)
        record = _read_message(inner, reader)
        yield record if wrapper.magic == 0 else _placed(record, wrapper, base)


def _base_offset(wrapper: LegacyHeader, data: memoryview, source: str, position: int) -> int:
    """What to add to relative offsets, so that the last message gets the wrapper's."""
    last_inner = None
    for _, inner in _inner_messages(data, source, position):
        last_inner = inner
    if last_inner is None:
        raise InvalidRecord(source=source, position=position, expected="wrapped messages", found="none")
    if wrapper.offset == 0:  # some librdkafka versions leave 0: then the inner offsets are absolute
        return 0
    if wrapper.magic > 0 and wrapper.offset < last_inner.offset:
        expected = f"a wrapper offset of {last_inner.offset} or more"
        raise InvalidRecord(source=source, position=position, expected=expected, found=wrapper.offset)
    return wrapper.offset - last_inner.offset


def _inner_messages(data: memoryview, source: str, position: int) -> Iterator[tuple[int, LegacyHeader]]:
    """Inner messages and their positions; one that is cut off at the end is left out."""
    start = 0
    while len(data) - start >= LOG_OVERHEAD:
        (size,) = _LENGTH.unpack_from(data, start + LENGTH_OFFSET)
        if size < _OVERHEAD_V0:
            raise BadLength(
                source=source, position=position, expected=f"{_OVERHEAD_V0} or more in a wrapper", found=size
            )
        if size > len(data) - start - LOG_OVERHEAD:
            return
        header = read_legacy_header(data[start:], source=source, position=position)
        yield start, header
        start += header.size


def _placed(record: LogRecord, wrapper: LegacyHeader, base: int) -> LogRecord:
    log_append = wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME
    return replace(
        record,
        offset=to_int64(base + record.offset),
        timestamp=wrapper.timestamp if log_append else record.timestamp,
        timestamp_type=wrapper.timestamp_type,
    )


# Writing messages of magic 0 and 1 (facts §1.6): no broker does so any more, but old logs hold them.
_PLACEMENT = Struct(">qiI")  # offset, size, CRC-32
_CRC_SIZE = 4
_LENGTH = Struct(">i")


def write_message(
    *,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    magic: int = 1,
    timestamp: int = NO_TIMESTAMP,
    attributes: int = 0,
) -> bytes:
    """One message; magic 0 leaves the timestamp out."""
    stamp = b"" if magic == 0 else _TIMESTAMP.pack(timestamp)
    covered = bytes((magic, attributes)) + stamp + _write_nullable(key) + _write_nullable(value)
    return _PLACEMENT.pack(offset, _CRC_SIZE + len(covered), zlib.crc32(covered)) + covered


def _write_nullable(value: bytes | None) -> bytes:
    return _LENGTH.pack(-1) if value is None else _LENGTH.pack(len(value)) + value
