"""Whether bytes look like the beginning of a batch, judged by its first 61 bytes alone.

Needed where no checksum can help: after a damaged batch, to know whether its length still leads to the next
one, and where a reader starts in the middle of an object. To look like a batch proves nothing; the CRC does.
"""

from struct import Struct

from spark_jobs.protocol.record_batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Codec,
    RecordBatchHeader,
    read_header,
)

_PREFIX = Struct(">qi4xbb")  # offset, size, leader epoch or CRC, magic, attributes of a legacy message
_LEGACY_OVERHEAD = {0: 14, 1: 22}
_LEGACY_ATTRIBUTES = 0x0F
"""Bits that a legacy message can have: three of codec, one of timestamp type (facts §1.6)."""


def looks_like_batch(head: bytes | memoryview) -> bool:
    """Whether `head`, at least the first 18 and at best 61 bytes, could be what Kafka writes."""
    if len(head) < _PREFIX.size:
        return False
    offset, size, magic, attributes = _PREFIX.unpack_from(head)
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
