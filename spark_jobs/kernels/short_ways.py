"""Short ways for the codecs that most payloads have: from the payload straight into an arena.

A short way takes what it fully understands and is right about it; anything else it leaves to the pure way by
answering False, with the arena as it was.
"""

import cramjam

from spark_jobs.kernels.arena import Arena
from spark_jobs.kernels.zstd_library import decompress_frame
from spark_jobs.protocol.codecs.xxhash32 import xxhash32

_LZ4_MAGIC = bytes.fromhex("04224d18")
_LZ4_FLAGS, _LZ4_CONTENT_CHECKSUM = 0x60, 0x04
"""Version 01 with independent blocks: what Java, librdkafka and Go write."""
_LZ4_STORED = 0x80000000
_LZ4_MOST_PER_BYTE = 255
_ZSTD_MOST_USUAL = 16
_SMALLEST_ROOM = 1 << 18


def _lz4_starts() -> dict[bytes, tuple[int, int]]:
    """The frame headers that the short way knows → (largest block, bytes after the end mark)."""
    starts = {}
    for size_code in range(4, 8):
        for flags, after in ((_LZ4_FLAGS, 0), (_LZ4_FLAGS | _LZ4_CONTENT_CHECKSUM, 4)):
            descriptor = bytes((flags, size_code << 4))
            check = xxhash32(descriptor) >> 8 & 0xFF
            starts[_LZ4_MAGIC + descriptor + bytes((check,))] = (1 << (2 * size_code + 8), after)
    return starts


_LZ4_STARTS = _lz4_starts()
_LZ4_START_SIZE = 7


def put_lz4(arena: Arena, data: memoryview, limit: int) -> bool:
    """One frame of usual form, block by block."""
    start = _LZ4_STARTS.get(bytes(data[:_LZ4_START_SIZE]))
    if start is None:
        return False
    used, (largest, after) = arena.used, start
    position = _LZ4_START_SIZE
    while position + 4 <= len(data):
        word = int.from_bytes(data[position : position + 4], "little")
        position += 4
        size = word & ~_LZ4_STORED
        if size == 0:
            return _finish(arena, used, limit, complete=len(data) - position >= after)
        if size > min(largest, len(data) - position) or arena.used - used > limit:
            break
        if not _put_lz4_block(arena, data[position : position + size], largest, word):
            break
        position += size
    return _finish(arena, used, limit, complete=False)


def _put_lz4_block(arena: Arena, block: memoryview, largest: int, word: int) -> bool:
    if word & _LZ4_STORED:
        arena.put(block)
        return True
    room = min(largest, len(block) * _LZ4_MOST_PER_BYTE)
    arena.reserve(room)
    try:
        arena.used += cramjam.lz4.decompress_block_into(
            block, arena.view[arena.used : arena.used + room], output_len=room
        )
    except cramjam.DecompressionError:
        return False
    return True


def _finish(arena: Arena, used: int, limit: int, *, complete: bool) -> bool:
    if complete and arena.used - used <= limit:
        return True
    arena.used = used
    return False


def put_zstd(arena: Arena, data: memoryview, limit: int) -> bool:
    """All frames, if they need no more room than is usual."""
    arena.reserve(max(_SMALLEST_ROOM, len(data) * _ZSTD_MOST_USUAL))
    room = arena.view[arena.used : arena.used + limit]
    try:
        size = decompress_frame(data, room)
        arena.used += cramjam.zstd.decompress_into(data, room) if size is None else size
    except cramjam.DecompressionError:
        return False
    return True
