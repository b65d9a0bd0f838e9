"""lz4: the frame format, read block by block because Kafka's reader differs from others (facts §1.7).

Writers of magic v0 computed the descriptor's checksum over too many bytes, so there it is not checked. The
content's size and checksum are skipped, linked blocks are refused, bytes after the end mark are ignored.
"""

from dataclasses import dataclass
from struct import Struct

import cramjam

from spark_jobs.kafka.formats.limits import OutputLimit

# xxHash32 with seed 0: the checksum inside lz4 frames.
_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF
_STRIPE = Struct("<4I")
_WORD = Struct("<I")


def xxhash32(data: bytes | memoryview) -> int:
    """Hash of `data` as an unsigned 32-bit number."""
    size = len(data)
    striped = size - size % _STRIPE.size
    value = _hash_stripes(data, striped) if striped else _P5
    value = (value + size) & _MASK
    words_end = size - size % _WORD.size
    for position in range(striped, words_end, _WORD.size):
        value = _rotate((value + _WORD.unpack_from(data, position)[0] * _P3) & _MASK, 17) * _P4 & _MASK
    for byte in data[words_end:]:
        value = _rotate((value + byte * _P5) & _MASK, 11) * _P1 & _MASK
    return _avalanche(value)


def _hash_stripes(data: bytes | memoryview, end: int) -> int:
    a, b, c, d = (_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK
    for w, x, y, z in _STRIPE.iter_unpack(data[:end]):
        a = _round(a, w)
        b = _round(b, x)
        c = _round(c, y)
        d = _round(d, z)
    return (_rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _MASK, 13) * _P1 & _MASK


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _avalanche(value: int) -> int:
    value = (value ^ value >> 15) * _P2 & _MASK
    value = (value ^ value >> 13) * _P3 & _MASK
    return value ^ value >> 16


_MAGIC = bytes.fromhex("04224d18")
_STORED = 0x80000000
"""Set in a block's length if its bytes are not compressed."""
_FRAME_START = _MAGIC + bytes.fromhex("6040")  # version 01, independent blocks of 64 KiB
_BLOCK_SIZE = 64 * 1024
_DESCRIPTOR_START = len(_MAGIC)
_VERSION_BITS, _INDEPENDENT, _RESERVED = 0xC0, 0x20, 0x03
_BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM = 0x10, 0x08, 0x04
_MOST_PER_BYTE = 255
"""No lz4 block grows by more than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    blocks_start: int
    max_block_size: int
    has_block_checksums: bool
    has_content_checksum: bool


def decompress(data: memoryview, bounds: OutputLimit, *, checks_descriptor: bool = True) -> bytes:
    """The blocks of one frame."""
    frame = _read_frame(data, bounds, checks_descriptor=checks_descriptor)
    out, position = bytearray(), frame.blocks_start
    while (word := _read_word(data, position, bounds)) & ~_STORED:
        position += _WORD.size
        size = word & ~_STORED
        if size > min(frame.max_block_size, len(data) - position):
            raise bounds.corrupt(f"at most {frame.max_block_size} bytes in an lz4 block", size, position)
        block = data[position : position + size]
        position += size
        if frame.has_block_checksums:
            _check_hash(block, _read_word(data, position, bounds), position, bounds)
            position += _WORD.size
        out += block if word & _STORED else _read_block(block, frame.max_block_size, position - size, bounds)
        bounds.check(len(out))
    if frame.has_content_checksum:
        _read_word(data, position + _WORD.size, bounds)
    return bytes(out)


def _read_frame(data: memoryview, bounds: OutputLimit, *, checks_descriptor: bool) -> _Frame:
    if len(data) < len(_FRAME_START) + 1 or data[:_DESCRIPTOR_START] != _MAGIC:
        raise bounds.corrupt(f"lz4 magic {_MAGIC.hex()}", data[:_DESCRIPTOR_START].hex())
    flags, block_descriptor = data[4], data[5]
    size_code = block_descriptor >> 4
    if flags & _VERSION_BITS != 0x40 or flags & _RESERVED or not flags & _INDEPENDENT:
        raise bounds.corrupt("version 01, independent blocks and reserved bits 0", f"{flags:#04x}", 4)
    if block_descriptor & 0x8F or size_code < 4:
        raise bounds.corrupt("a block size of 4 to 7 and reserved bits 0", f"{block_descriptor:#04x}", 5)
    end = 6 + (8 if flags & _CONTENT_SIZE else 0)
    if end >= len(data):
        raise bounds.corrupt("an lz4 descriptor", "the end of the data", end)
    if checks_descriptor and data[end] != _descriptor_check(data[_DESCRIPTOR_START:end]):
        raise bounds.corrupt(
            f"descriptor checksum {_descriptor_check(data[4:end]):#04x}", f"{data[end]:#04x}", end
        )
    return _Frame(
        blocks_start=end + 1,
        max_block_size=1 << (2 * size_code + 8),
        has_block_checksums=bool(flags & _BLOCK_CHECKSUM),
        has_content_checksum=bool(flags & _CONTENT_CHECKSUM),
    )


def _descriptor_check(descriptor: bytes | memoryview) -> int:
    return xxhash32(descriptor) >> 8 & 0xFF


def _read_word(data: memoryview, position: int, bounds: OutputLimit) -> int:
    if len(data) - position < _WORD.size:
        raise bounds.corrupt("an lz4 block or the end mark", "the end of the data", position)
    return int(_WORD.unpack_from(data, position)[0])


def _check_hash(block: memoryview, expected: int, position: int, bounds: OutputLimit) -> None:
    found = xxhash32(block)
    if found != expected:
        raise bounds.corrupt(f"block checksum {expected:#010x}", f"{found:#010x}", position)


def _read_block(block: memoryview, max_block_size: int, position: int, bounds: OutputLimit) -> memoryview:
    out = bytearray(min(max_block_size, len(block) * _MOST_PER_BYTE))
    try:
        size = cramjam.lz4.decompress_block_into(block, out, output_len=len(out))
    except cramjam.DecompressionError as error:
        raise bounds.corrupt("an lz4 block", error, position) from None
    return memoryview(out)[:size]


def compress(data: bytes, *, wrong_descriptor_check: bool = False) -> bytes:
    """One frame; magic v0 wants the checksum that its first writers computed wrongly."""
    hashed = _FRAME_START if wrong_descriptor_check else _FRAME_START[_DESCRIPTOR_START:]
    out = [_FRAME_START, bytes((_descriptor_check(hashed),))]
    for start in range(0, len(data), _BLOCK_SIZE):
        block = data[start : start + _BLOCK_SIZE]
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        smaller = len(packed) < len(block)
        out += (_WORD.pack(len(packed)), packed) if smaller else (_WORD.pack(len(block) | _STORED), block)
    return b"".join((*out, bytes(_WORD.size)))
