"""Writing messages of magic 0 and 1 (facts §1.6): no broker does so any more, but old logs hold them."""

import zlib
from struct import Struct

from spark_jobs.protocol.compression import compress
from spark_jobs.protocol.record_batch import NO_TIMESTAMP, Codec

_PLACEMENT = Struct(">qiI")  # offset, size, CRC-32
_CRC_SIZE = 4
_TIMESTAMP = Struct(">q")
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


def write_wrapper(
    messages: bytes,
    *,
    offset: int,
    codec: Codec,
    magic: int = 1,
    timestamp: int = NO_TIMESTAMP,
    attributes: int = 0,
) -> bytes:
    """Messages wrapped into one; `offset` is the last one's, theirs are relative unless magic is 0."""
    return write_message(
        offset=offset,
        key=None,
        value=compress(codec, messages, magic=magic),
        magic=magic,
        timestamp=timestamp,
        attributes=attributes | codec,
    )
