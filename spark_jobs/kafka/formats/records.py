"""Records inside a v2 batch (facts §1.4): as stored, relative to their batch, and as a consumer sees them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spark_jobs.kafka.errors import InvalidRecord, LimitExceeded
from spark_jobs.kafka.formats.compression import decompress
from spark_jobs.kafka.formats.limits import DEFAULT_LIMITS, RecordLimits
from spark_jobs.kafka.formats.primitives import Reader, to_int64, write_varint, write_varlong
from spark_jobs.kafka.formats.record_batch import (
    HEADER_SIZE,
    NO_SEQUENCE,
    RecordBatchHeader,
    TimestampType,
    read_whole_header,
)
from spark_jobs.kafka.producers.sequence import increment_sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """One record header; keys may repeat within a record."""

    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record as stored: offset and timestamp relative to its batch."""

    offset_delta: int = 0
    timestamp_delta: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    attributes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """One record as a consumer sees it; `sequence` is -1 where its producer is not idempotent."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    sequence: int = NO_SEQUENCE


def read_records(
    batch: bytes | memoryview,
    *,
    limits: RecordLimits = DEFAULT_LIMITS,
    source: str = "<bytes>",
    position: int = 0,
) -> Iterator[LogRecord]:
    """Records of the v2 batch that `batch` begins with, absolute; control records are records too.

    `position` is where the batch is in `source`. The CRC is not checked here; `check_batch` does that.
    """
    header = read_whole_header(batch, source=source, position=position)
    for record in read_stored_records(batch, limits=limits, source=source, position=position):
        yield _absolute(header, record)


def read_stored_records(
    batch: bytes | memoryview,
    *,
    limits: RecordLimits = DEFAULT_LIMITS,
    source: str = "<bytes>",
    position: int = 0,
) -> Iterator[Record]:
    """Records of the v2 batch that `batch` begins with, as stored."""
    header = read_whole_header(batch, source=source, position=position)
    if header.record_count == 0:  # a broker ignores any payload of an empty batch
        return
    where = position + HEADER_SIZE
    if header.record_count > limits.records_per_batch:
        raise LimitExceeded(
            source=source,
            position=where,
            expected=f"at most {limits.records_per_batch} records in a batch",
            found=header.record_count,
        )
    payload = memoryview(batch)[HEADER_SIZE : header.size]
    if header.codec_id:
        payload = memoryview(
            decompress(
                header.codec_id, payload, limit=limits.decompressed_bytes, source=source, position=where
            )
        )
    in_place = not header.codec_id
    reader = Reader(payload, error=InvalidRecord, source=source, origin=where, in_place=in_place)
    yield from _read_exactly(reader, header.record_count, limits)


def _read_exactly(reader: Reader, record_count: int, limits: RecordLimits) -> Iterator[Record]:
    if record_count < 0:
        raise reader.fail(expected="a record count of 0 or more", found=record_count)
    for index in range(record_count):
        if not reader.remaining:
            raise reader.fail(expected=f"{record_count} records", found=index)
        yield read_record(reader, limits=limits)
    if reader.remaining:
        raise reader.fail(
            expected=f"the end after {record_count} records", found=f"{reader.remaining} more bytes"
        )


def read_record(reader: Reader, *, limits: RecordLimits = DEFAULT_LIMITS) -> Record:
    """The record at the reader's position; it must fill the length that it claims."""
    length = reader.read_varint()
    if not 0 <= length <= reader.remaining:
        raise reader.fail(expected=f"a record of {length} bytes", found=f"{reader.remaining} left")
    end = reader.position + length
    record = Record(
        attributes=reader.read_int8(),
        timestamp_delta=reader.read_varlong(),
        offset_delta=reader.read_varint(),
        key=_read_nullable(reader),
        value=_read_nullable(reader),
        headers=_read_headers(reader, limits.headers_per_record),
    )
    if reader.position != end:
        raise reader.fail(
            expected=f"a record of {length} bytes", found=f"{length + reader.position - end} bytes"
        )
    return record


def _read_nullable(reader: Reader) -> bytes | None:
    size = reader.read_varint()
    return None if size < 0 else reader.read_bytes(size)


def _read_headers(reader: Reader, most: int) -> tuple[Header, ...]:
    count = reader.read_varint()
    if most < count <= reader.remaining:
        raise reader.fail(expected=f"at most {most} headers in a record", found=count)
    if not 0 <= count <= reader.remaining:
        raise reader.fail(expected=f"{count} headers", found=f"{reader.remaining} bytes left")
    return tuple(_read_header(reader) for _ in range(count))


def _read_header(reader: Reader) -> Header:
    # As in a consumer, a header key that is not UTF-8 gets replacement characters instead of an error.
    key = reader.read_bytes(reader.read_varint()).decode(errors="replace")
    return Header(key=key, value=_read_nullable(reader))


def _absolute(header: RecordBatchHeader, record: Record) -> LogRecord:
    timestamp_type = header.timestamp_type
    log_append = timestamp_type is TimestampType.LOG_APPEND_TIME
    base_sequence = header.base_sequence
    return LogRecord(
        offset=to_int64(header.base_offset + record.offset_delta),
        timestamp=header.max_timestamp
        if log_append
        else to_int64(header.base_timestamp + record.timestamp_delta),
        timestamp_type=timestamp_type,
        key=record.key,
        value=record.value,
        headers=record.headers,
        sequence=increment_sequence(base_sequence, record.offset_delta)
        if base_sequence >= 0
        else NO_SEQUENCE,
    )


def write_records(records: Iterable[Record]) -> bytes:
    """Records as they are in a batch, uncompressed."""
    return b"".join(write_record(record) for record in records)


def write_record(record: Record) -> bytes:
    """One record with its length in front."""
    body = b"".join((
        (record.attributes & 0xFF).to_bytes(1, "big"),
        write_varlong(record.timestamp_delta),
        write_varint(record.offset_delta),
        _write_nullable(record.key),
        _write_nullable(record.value),
        write_varint(len(record.headers)),
        *(_write_header(header) for header in record.headers),
    ))  # fmt: skip
    return write_varint(len(body)) + body


def _write_nullable(value: bytes | None) -> bytes:
    return write_varint(-1) if value is None else write_varint(len(value)) + value


def _write_header(header: Header) -> bytes:
    return _write_nullable(header.key.encode()) + _write_nullable(header.value)
