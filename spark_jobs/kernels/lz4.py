"""lz4 inside kernels: one frame of usual form, its blocks decompressed by lz4's own library (facts §1.7).

The library is the one that the package lz4 brings along, found at run time; kernels get the address of its
function, as they get that of CRC-32C. What is taken is what `protocol.codecs.lz4` takes, with the same bytes;
anything unusual or damaged is left to it.
"""

import ctypes
from functools import cache
from importlib.util import find_spec

import numpy as np

from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.memory import Bytes, call_lz4, copy_bytes, load_uint8, load_uint32
from spark_jobs.kernels.outcome import DONE, NEEDS_ROOM, UNUSUAL, Outcome
from spark_jobs.protocol.codecs.xxhash32 import xxhash32

_LIBRARY_MODULE = "lz4.block._block"
_MAGIC = 0x04224D18
_FLAGS, _CONTENT_CHECKSUM = 0x60, 0x04
"""Version 01 with independent blocks: what Java, librdkafka and Go write."""
_START_SIZE = 7
_STORED = 0x80000000
_MOST_PER_BYTE = 255
_FAILED = -1


@cache
def lz4_address() -> int:
    """The address of `LZ4_decompress_safe`, which checks all bounds; 0 where there is no library."""
    try:
        module = find_spec(_LIBRARY_MODULE)
    except ModuleNotFoundError:
        return 0
    if module is None or module.origin is None:
        return 0
    library = ctypes.CDLL(module.origin)
    if not hasattr(library, "LZ4_decompress_safe"):
        return 0
    return ctypes.cast(library.LZ4_decompress_safe, ctypes.c_void_p).value or 0


def _descriptor_checks() -> Bytes:
    """By content checksum and block size: the byte after the two of the descriptor."""
    checks = np.zeros((2, 8), dtype=np.uint8)
    for has_checksum, flags in enumerate((_FLAGS, _FLAGS | _CONTENT_CHECKSUM)):
        for size_code in range(4, 8):
            checks[has_checksum, size_code] = xxhash32(bytes((flags, size_code << 4))) >> 8 & 0xFF
    return checks


_CHECKS = _descriptor_checks()


@helper
def _largest_block(data: Bytes, start: int, end: int) -> int:
    """Bytes that blocks of the frame at `start` have at most, or `_FAILED` if it is not a usual frame."""
    if end - start < _START_SIZE or load_uint32(data, start) != _MAGIC:
        return _FAILED
    flags, descriptor = load_uint8(data, start + 4), load_uint8(data, start + 5)
    size_code = descriptor >> 4
    if flags & ~_CONTENT_CHECKSUM != _FLAGS or descriptor & 0xF or size_code < 4 or size_code > 7:
        return _FAILED
    if load_uint8(data, start + 6) != _CHECKS[flags >> 2 & 1, size_code]:
        return _FAILED
    return 1 << (2 * size_code + 8)


@helper
def _little_word(data: Bytes, position: int) -> int:
    word = load_uint32(data, position)
    return word >> 24 | word >> 8 & 0xFF00 | (word & 0xFF00) << 8 | (word & 0xFF) << 24


@helper
def put_lz4(address: int, memory: Bytes, used: int, data: Bytes, start: int, end: int, limit: int) -> Outcome:
    """The content of the frame from `start` to `end`, put behind the bytes of `memory` that are used."""
    largest = _largest_block(data, start, end) if address else _FAILED
    if largest == _FAILED:
        return Outcome(UNUSUAL, used, 0)
    after = 4 if load_uint8(data, start + 4) & _CONTENT_CHECKSUM else 0
    position, out = start + _START_SIZE, used
    while end - position >= 4 and out - used <= limit:
        word = _little_word(data, position)
        position += 4
        size = word & ~_STORED
        if size == 0:
            is_whole = end - position >= after
            return Outcome(DONE, out, 0) if is_whole else Outcome(UNUSUAL, used, 0)
        if size > min(largest, end - position):
            break
        room = size if word & _STORED else min(largest, size * _MOST_PER_BYTE)
        if memory.size - out < room:
            return Outcome(NEEDS_ROOM, used, out - used + room)
        if word & _STORED:
            copy_bytes(memory, out, data, position, size)
            out += size
        else:
            found = call_lz4(address, memory, out, room, data, position, size)
            if found < 0 or found > room:
                break
            out += found
        position += size
    return Outcome(UNUSUAL, used, 0)
