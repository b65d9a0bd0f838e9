"""zstd: any frames (facts §1.7)."""

from struct import Struct

import cramjam

from spark_jobs.kafka.formats.limits import OutputLimit

_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC, _SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
_WORD = Struct("<I")
_SINGLE_SEGMENT, _CHECKSUM = 0x20, 0x04
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_RAW, _RLE, _COMPRESSED = range(3)
_MAX_BLOCK_SIZE = 128 * 1024
_FULL = "failed to write whole buffer"
"""The library's error message for an output buffer that is too small."""


def decompress(data: memoryview, bounds: OutputLimit) -> bytes:
    """All frames as one stream.

    The output goes into a buffer that cannot grow: what the blocks can hold at most, or the limit.
    """
    out = bytearray(min(_most_output(data), bounds.limit))
    try:
        return bytes(memoryview(out)[: cramjam.zstd.decompress_into(data, out)])
    except cramjam.DecompressionError as error:
        if _FULL in str(error):
            bounds.check(bounds.limit + 1)
        raise bounds.corrupt("zstd frames", error) from None


def _most_output(data: memoryview) -> int:
    """Bytes that the frames can hold at most, by their block headers; other bytes count 0."""
    total = position = 0
    while len(data) - position >= _WORD.size:
        (magic,) = _WORD.unpack_from(data, position)
        position += _WORD.size
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC and len(data) - position >= _WORD.size:
            position += _WORD.size + _WORD.unpack_from(data, position)[0]
        elif magic == _MAGIC and position < len(data):
            size, position = _walk_frame(data, position)
            total += size
        else:
            break
    return total


def _walk_frame(data: memoryview, position: int) -> tuple[int, int]:
    """The most that one frame's blocks can hold and the position after it; `position` is after its magic."""
    descriptor, total = data[position], 0
    position += _frame_header_size(descriptor)
    while len(data) - position >= 3:
        block = int.from_bytes(data[position : position + 3], "little")
        kind, size = block >> 1 & 3, block >> 3
        total += min(size, _MAX_BLOCK_SIZE) if kind in {_RAW, _RLE} else _MAX_BLOCK_SIZE
        position += 3 + (1 if kind == _RLE else size)
        if block & 1:
            break
    return total, position + (4 if descriptor & _CHECKSUM else 0)


def _frame_header_size(descriptor: int) -> int:
    single = bool(descriptor & _SINGLE_SEGMENT)
    content_size = _CONTENT_SIZE_BYTES[descriptor >> 6] or single
    return 1 + (not single) + _DICTIONARY_ID_BYTES[descriptor & 3] + content_size


def compress(data: bytes) -> bytes:
    """One frame that says neither size nor checksum, as Java's stream writes it."""
    stream = cramjam.zstd.Compressor()
    stream.compress(data)
    return bytes(stream.finish())
