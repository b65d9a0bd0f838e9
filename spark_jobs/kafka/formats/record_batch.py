"""The 61-byte header of a v2 record batch, and the CRC-32C of batches (facts §1.3)."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from struct import Struct

import google_crc32c

from spark_jobs.kafka.errors import BadCrc, BadLength, BadMagic, TornBatch
from spark_jobs.kafka.formats.primitives import to_int64
from spark_jobs.kafka.producers.sequence import increment_sequence

# CRC-32C (Castagnoli), the checksum of v2 batches and of producer snapshots (facts §1.3, §1.8).
_CHUNK = 1 << 16
"""The library needs `bytes`: copying in pieces keeps a memory-mapped payload out of the heap."""


def crc32c(data: bytes | memoryview) -> int:
    """Checksum of `data` as an unsigned 32-bit number."""
    if isinstance(data, bytes):
        return int(google_crc32c.value(data))
    crc = 0
    for start in range(0, len(data), _CHUNK):
        crc = int(google_crc32c.extend(crc, bytes(data[start : start + _CHUNK])))
    return crc


MAGIC_V2 = 2

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_PARTITION_LEADER_EPOCH = -1

HEADER = Struct(
    ">"
    "q"  # base_offset             0   not covered by the CRC
    "i"  # batch_length            8   bytes after this field; not covered
    "i"  # partition_leader_epoch 12   not covered
    "b"  # magic                  16   not covered
    "I"  # crc                    17   CRC-32C of everything from attributes to the end
    "h"  # attributes             21   only the low byte means anything
    "i"  # last_offset_delta      23   also the last sequence's delta; compaction keeps it
    "q"  # base_timestamp         27   or the delete horizon if bit 6 is set
    "q"  # max_timestamp          35
    "q"  # producer_id            43
    "h"  # producer_epoch         51
    "i"  # base_sequence          53
    "i"  # record_count           57   records present, 0 after compaction
)
HEADER_SIZE = HEADER.size
LOG_OVERHEAD = 12
"""Bytes before the part that `batch_length` counts."""
CRC_START = 21
"""First byte that the CRC covers."""
LENGTH_OFFSET, MAGIC_OFFSET, CRC_OFFSET, MAX_TIMESTAMP_OFFSET = 8, 16, 17, 35

_PLACEMENT = Struct(">qii")
_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")


class Codec(IntEnum):
    """Bits 0-2 of the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(StrEnum):
    """Bit 3 of the attributes, under the names consumers know; v0 messages have no timestamp at all."""

    NO_TIMESTAMP_TYPE = "NoTimestampType"
    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


CODEC_MASK = 0x07
TIMESTAMP_TYPE_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40
KNOWN_ATTRIBUTES = 0x7F


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatchHeader:
    """One batch's header, field for field as on disk; derived values are properties."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD + self.batch_length

    @property
    def codec_id(self) -> int:
        """Raw codec bits; 5-7 name no codec."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> TimestampType:
        log_append = self.attributes & TIMESTAMP_TYPE_FLAG
        return TimestampType.LOG_APPEND_TIME if log_append else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_offset(self) -> int:
        return to_int64(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> int:
        return to_int64(self.last_offset + 1)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record as sent, even if compaction removed it; -1 without sequences."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def read_header(data: bytes | memoryview, position: int = 0) -> RecordBatchHeader:
    """The header at `position`; the caller has checked that 61 bytes are there."""
    (
        base_offset, batch_length, partition_leader_epoch, magic, crc, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, record_count,
    ) = HEADER.unpack_from(data, position)  # fmt: skip
    return RecordBatchHeader(
        base_offset=base_offset,
        batch_length=batch_length,
        partition_leader_epoch=partition_leader_epoch,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=record_count,
    )


def write_header(header: RecordBatchHeader) -> bytes:
    """The 61 bytes of `header`, its `crc` and `batch_length` as they are."""
    return HEADER.pack(
        header.base_offset,
        header.batch_length,
        header.partition_leader_epoch,
        header.magic,
        header.crc,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )


def read_whole_header(
    data: bytes | memoryview, *, source: str = "<bytes>", position: int = 0
) -> RecordBatchHeader:
    """The header of the whole v2 batch that `data` begins with; `position` is its place in `source`."""
    return _read_sized_header(data, 0, len(data), source, position)


def check_batch(
    data: bytes | memoryview, position: int = 0, end: int | None = None, *, source: str = "<bytes>"
) -> RecordBatchHeader:
    """The header of the v2 batch at `position`, once its length, magic and CRC are right."""
    header = _read_sized_header(data, position, len(data) if end is None else end, source, position)
    if header.magic != MAGIC_V2:
        raise BadMagic(source=source, position=position + MAGIC_OFFSET, expected=MAGIC_V2, found=header.magic)
    check_crc(data, position, header, source=source)
    return header


def check_crc(data: bytes | memoryview, position: int, header: RecordBatchHeader, *, source: str) -> None:
    """Raises if the batch at `position` does not match its checksum."""
    found = crc32c(memoryview(data)[position + CRC_START : position + header.size])
    if found != header.crc:
        raise BadCrc(source=source, position=position, expected=f"{header.crc:#010x}", found=f"{found:#010x}")


def _read_sized_header(
    data: bytes | memoryview, position: int, end: int, source: str, place: int
) -> RecordBatchHeader:
    if end - position >= _PLACEMENT.size:
        # A length that no batch can have is wrong, not torn: more bytes would not help.
        _check_length(_PLACEMENT.unpack_from(data, position)[1], source, place)
    if end - position < HEADER_SIZE:
        raise TornBatch(source=source, position=place, expected=f"{HEADER_SIZE} bytes", found=end - position)
    header = read_header(data, position)
    if header.size > end - position:
        raise TornBatch(source=source, position=place, expected=f"{header.size} bytes", found=end - position)
    return header


def _check_length(batch_length: int, source: str, place: int) -> None:
    smallest = HEADER_SIZE - LOG_OVERHEAD
    if batch_length < smallest:
        where = place + LENGTH_OFFSET
        raise BadLength(source=source, position=where, expected=f"{smallest} or more", found=batch_length)


def assign_offset(batch: bytes, *, base_offset: int, partition_leader_epoch: int) -> bytes:
    """`batch` as a leader places it in its log: the CRC does not cover these two fields."""
    prefix = _PLACEMENT.pack(base_offset, read_header(batch).batch_length, partition_leader_epoch)
    return prefix + batch[_PLACEMENT.size :]


def set_max_timestamp(batch: bytes, timestamp_type: TimestampType, max_timestamp: int) -> bytes:
    """`batch` with this timestamp type and value and a new CRC; unchanged bytes if it has both already.

    Attribute bits without a meaning are cleared, as a broker clears them.
    """
    header = read_header(batch)
    if (header.timestamp_type, header.max_timestamp) == (timestamp_type, max_timestamp):
        return batch
    log_append = TIMESTAMP_TYPE_FLAG if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    covered = bytearray(batch[CRC_START:])
    _ATTRIBUTES.pack_into(
        covered, 0, (header.attributes & KNOWN_ATTRIBUTES & ~TIMESTAMP_TYPE_FLAG) | log_append
    )
    _MAX_TIMESTAMP.pack_into(covered, MAX_TIMESTAMP_OFFSET - CRC_START, max_timestamp)
    return batch[:CRC_OFFSET] + _CRC.pack(crc32c(bytes(covered))) + covered
