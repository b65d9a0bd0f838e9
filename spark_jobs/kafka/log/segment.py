"""Scans a segment as a broker does (facts §1.2, §6.1): its batches, and where recovery would truncate it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from mmap import mmap
from struct import Struct

from spark_jobs.kafka.errors import BadLength, BadMagic, CorruptData, TornBatch, ZeroFilledTail
from spark_jobs.kafka.formats.legacy import (
    LegacyHeader,
    check_legacy_crc,
    read_legacy_header,
    read_legacy_records,
)
from spark_jobs.kafka.formats.limits import DEFAULT_LIMITS, RecordLimits
from spark_jobs.kafka.formats.record_batch import (
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Codec,
    RecordBatchHeader,
    check_crc,
    read_header,
    read_whole_header,
)
from spark_jobs.kafka.formats.records import LogRecord, read_records

Buffer = bytes | bytearray | memoryview | mmap

MAX_RELATIVE_OFFSET = 2**31 - 1
"""An index entry has its offset relative to the segment's base offset, in 31 bits."""
_PREFIX = Struct(">qi4xb")  # offset, size, leader epoch or CRC, magic
_SMALLEST_SIZE = 14
"""Bytes of a legacy message without key and value, after its size field."""
_ZEROS = bytes(1 << 16)
ReadRange = Callable[[int, int], bytes]
"""Up to so many bytes from a position on."""
WINDOW_BYTES = 256 * 2**10
_LAST_OFFSET_DELTA = Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_HEAD_BYTES = _LAST_OFFSET_DELTA_AT + _LAST_OFFSET_DELTA.size


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedBatch:
    """A whole batch and where it begins."""

    position: int
    header: RecordBatchHeader | LegacyHeader

    @property
    def end(self) -> int:
        """Position after the batch."""
        return self.position + self.header.size


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentScan:
    """What an unclean recovery keeps of a segment: `batches` up to `valid_bytes`.

    `problem` is the error found there, None if the segment ends there. It may also be the magic byte of a
    kept batch: a broker's recovery does not check it, but no consumer reads past it.
    """

    batches: tuple[ScannedBatch, ...]
    valid_bytes: int
    problem: CorruptData | None


def scan(
    data: Buffer,
    *,
    start: int = 0,
    end: int | None = None,
    source: str = "<bytes>",
    check_crc: bool = True,
    check_magic: bool = True,
) -> Iterator[ScannedBatch]:
    """Batches of `data[start:end]` in order, headers only; anything but a whole, valid batch raises.

    `check_magic=False` reads magic 3 and above as 2, as a broker's file reader does.
    """
    with memoryview(data) as view:
        position, stop = start, len(view) if end is None else min(end, len(view))
        while position < stop:
            batch = _read_batch(view, position, stop, source, check_magic=check_magic)
            if check_crc:
                _check_crc(view, batch, source)
            yield batch
            position = batch.end


def scan_result(
    data: Buffer, *, start: int = 0, end: int | None = None, source: str = "<bytes>", check_crc: bool = True
) -> SegmentScan:
    """What an unclean recovery keeps of `data[start:end]`, and the error that ends it."""
    batches: list[ScannedBatch] = []
    problem = None
    try:
        batches.extend(
            scan(data, start=start, end=end, source=source, check_crc=check_crc, check_magic=False)
        )
    except CorruptData as error:
        problem = error
    return SegmentScan(
        batches=tuple(batches),
        valid_bytes=batches[-1].end if batches else start,
        problem=next(
            (_bad_magic(batch, source) for batch in batches if batch.header.magic > MAGIC_V2), problem
        ),
    )


def read_batch_records(
    data: Buffer, batch: ScannedBatch, *, limits: RecordLimits = DEFAULT_LIMITS, source: str = "<bytes>"
) -> Iterator[LogRecord]:
    """Records of a scanned batch of any format; tests compare kernels and recordings with it."""
    with memoryview(data) as view:
        read = read_legacy_records if isinstance(batch.header, LegacyHeader) else read_records
        yield from read(
            view[batch.position : batch.end], limits=limits, source=source, position=batch.position
        )


def check_scanned_crc(data: Buffer, batch: ScannedBatch, *, source: str = "<bytes>") -> None:
    """Raises if the checksum of a scanned batch is wrong; for scans with `check_crc=False`."""
    with memoryview(data) as view:
        _check_crc(view, batch, source)


def _read_batch(
    view: memoryview, position: int, stop: int, source: str, *, check_magic: bool
) -> ScannedBatch:
    if stop - position <= _PREFIX.size:
        raise TornBatch(
            source=source, position=position, expected="a batch", found=f"{stop - position} bytes"
        )
    _, size, magic = _PREFIX.unpack_from(view, position)
    if size < _SMALLEST_SIZE:
        raise _bad_length(view, position, stop, size, source)
    if size > stop - position - LOG_OVERHEAD:
        found = f"{stop - position} to the end"
        raise TornBatch(
            source=source, position=position, expected=f"{LOG_OVERHEAD + size} bytes", found=found
        )
    batch = view[position : position + LOG_OVERHEAD + size]
    read_header = read_legacy_header if 0 <= magic < MAGIC_V2 else read_whole_header
    scanned = ScannedBatch(position=position, header=read_header(batch, source=source, position=position))
    if magic < 0 or (check_magic and magic > MAGIC_V2):
        raise _bad_magic(scanned, source)
    return scanned


def _bad_length(view: memoryview, position: int, stop: int, size: int, source: str) -> BadLength:
    if size == 0 and _is_zero(view[position:stop]):
        found = f"{stop - position} bytes of zeros"
        return ZeroFilledTail(source=source, position=position, expected="a batch or the end", found=found)
    where = position + LENGTH_OFFSET
    return BadLength(source=source, position=where, expected=f"{_SMALLEST_SIZE} or more", found=size)


def _is_zero(tail: memoryview) -> bool:
    return all(
        tail[start : start + len(_ZEROS)] == _ZEROS[: len(tail) - start]
        for start in range(0, len(tail), len(_ZEROS))
    )


def _bad_magic(batch: ScannedBatch, source: str) -> BadMagic:
    where = batch.position + MAGIC_OFFSET
    return BadMagic(source=source, position=where, expected="0, 1 or 2", found=batch.header.magic)


def _check_crc(view: memoryview, batch: ScannedBatch, source: str) -> None:
    if isinstance(batch.header, LegacyHeader):
        check_legacy_crc(view, batch.position, batch.header, source=source)
    else:
        check_crc(view, batch.position, batch.header, source=source)


_HEADER_PREFIX = Struct(">qi4xbb")  # offset, size, leader epoch or CRC, magic, attributes of a legacy message
_LEGACY_OVERHEAD = {0: 14, 1: 22}
_LEGACY_ATTRIBUTES = 0x0F
"""Bits that a legacy message can have: three of codec, one of timestamp type (facts §1.6)."""


def looks_like_batch(head: bytes | memoryview) -> bool:
    """Whether `head`, the first 18 to 61 bytes of an entry, could be what Kafka writes."""
    if len(head) < _HEADER_PREFIX.size:
        return False
    offset, size, magic, attributes = _HEADER_PREFIX.unpack_from(head)
    if magic in _LEGACY_OVERHEAD:
        return bool(offset >= 0 and size >= _LEGACY_OVERHEAD[magic] and attributes & ~_LEGACY_ATTRIBUTES == 0)
    return bool(magic == MAGIC_V2) and len(head) >= HEADER_SIZE and looks_like_header(read_header(head))


def looks_like_header(header: RecordBatchHeader) -> bool:
    """Whether every field of a v2 header has a value that some Kafka writes."""
    return (
        header.batch_length >= HEADER_SIZE - LOG_OVERHEAD
        and header.base_offset >= 0
        and header.partition_leader_epoch >= NO_PARTITION_LEADER_EPOCH
        and header.codec_id <= Codec.ZSTD
        and header.last_offset_delta >= 0
        and header.record_count >= 0
        and header.producer_id >= NO_PRODUCER_ID
        and header.producer_epoch >= NO_PRODUCER_EPOCH
        and header.base_sequence >= NO_SEQUENCE
        and min(header.base_timestamp, header.max_timestamp) >= NO_TIMESTAMP
    )


def next_offset(read: ReadRange, size: int, *, position: int, base_offset: int) -> int:
    """The offset after the last whole batch of a segment of `size` bytes; a batch begins at `position`.

    Bytes that are no batch end the walk: what they are is for the reader of the segment to report.
    """
    found = base_offset
    window, start = b"", position
    while position + _HEAD_BYTES <= size:
        if position + _HEAD_BYTES > start + len(window):
            window, start = read(position, WINDOW_BYTES), position
        head = window[position - start : position - start + _HEAD_BYTES]
        if len(head) < _HEAD_BYTES:
            break
        offset, length, magic = _PREFIX.unpack_from(head)
        end = position + LOG_OVERHEAD + length
        if length < _HEAD_BYTES - LOG_OVERHEAD or end > size or magic > MAGIC_V2:
            break
        delta = _LAST_OFFSET_DELTA.unpack_from(head, _LAST_OFFSET_DELTA_AT)[0] if magic == MAGIC_V2 else 0
        found, position = max(found, offset + max(delta, 0) + 1), end
    return found
