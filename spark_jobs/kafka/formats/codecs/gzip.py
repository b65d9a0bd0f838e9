"""gzip: RFC 1952 members, of which a stream may hold several (facts §1.7).

The standard library is used because it stops at a given output size, which bounds a decompression bomb.
"""

import struct
import zlib
from struct import Struct

from spark_jobs.kafka.formats.limits import OutputLimit

_GZIP_WINDOW = 31
_RAW_WINDOW = -15
_JAVA_HEADER = bytes.fromhex("1f8b08000000000000ff")
_MEMBER_START = bytes.fromhex("1f8b08")
_HEADER_CRC, _EXTRA, _NAME, _COMMENT, _RESERVED = 0x02, 0x04, 0x08, 0x10, 0xE0
_LENGTH = Struct("<H")
_SMALLEST_MEMBER = 20
_TRAILER = Struct("<II")  # CRC-32 and size of the uncompressed bytes
_FIRST_PIECE, _LARGEST_PIECE = 1 << 12, 1 << 20
"""zlib copies the input that it does not use: small first pieces keep many tiny members cheap."""


def decompress(data: memoryview, bounds: OutputLimit) -> bytes:
    """All members as one stream; trailing bytes that begin no member are ignored, as Java ignores them."""
    out, total, position = [], 0, 0
    while not position or _begins_member(data[position:]):
        member, position = _read_member(data, position, bounds, total)
        out.append(member)
        total += len(member)
    return b"".join(out)


def _begins_member(rest: memoryview) -> bool:
    return len(rest) >= _SMALLEST_MEMBER and rest[: len(_MEMBER_START)] == _MEMBER_START


def _read_member(data: memoryview, position: int, bounds: OutputLimit, total: int) -> tuple[bytes, int]:
    """One member's content and the position after it."""
    start, piece_size, out = position, _FIRST_PIECE, bytearray()
    inflate = zlib.decompressobj(_GZIP_WINDOW)
    if len(data) - start >= len(_JAVA_HEADER) and data[start + 3] & _RESERVED:
        position = _after_header(data, start, bounds)
        inflate.decompress(_JAVA_HEADER)
    while not inflate.eof:
        piece = data[position : position + piece_size]
        if not piece:
            raise bounds.corrupt("the end of the gzip member", "the end of the data", position)
        try:
            out += inflate.decompress(piece, bounds.limit - total - len(out) + 1)
        except zlib.error as error:
            raise bounds.corrupt("a gzip member", error, start) from None
        bounds.check(total + len(out))
        position += len(piece)
        piece_size = min(piece_size * 2, _LARGEST_PIECE)
    return bytes(out), position - len(inflate.unused_data)


def _after_header(data: memoryview, start: int, bounds: OutputLimit) -> int:
    """Position after the header of a member with reserved flags, which zlib refuses and Java ignores."""
    flags, position = data[start + 3], start + len(_JAVA_HEADER)
    try:
        if data[start : start + len(_MEMBER_START)] != _MEMBER_START:
            raise bounds.corrupt("a gzip member", bytes(data[start : start + 3]).hex(), start)
        if flags & _EXTRA:
            position += _LENGTH.size + _LENGTH.unpack_from(data, position)[0]
        for _ in range(bool(flags & _NAME) + bool(flags & _COMMENT)):
            position = _after_zero(data, position)
        if flags & _HEADER_CRC:
            (stored,), found = _LENGTH.unpack_from(data, position), zlib.crc32(data[start:position]) & 0xFFFF
            if stored != found:
                raise bounds.corrupt(f"a gzip header of CRC {stored}", found, start)
            position += _LENGTH.size
    except (struct.error, IndexError):
        raise bounds.corrupt("a gzip header", f"{len(data) - start} bytes", start) from None
    return position


def _after_zero(data: memoryview, position: int) -> int:
    while data[position]:
        position += 1
    return position + 1


def compress(data: bytes) -> bytes:
    """One member with the header that Java writes."""
    deflate = zlib.compressobj(wbits=_RAW_WINDOW)
    body = deflate.compress(data) + deflate.flush()
    return _JAVA_HEADER + body + _TRAILER.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)
