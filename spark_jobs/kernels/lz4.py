"""lz4 inside kernels: one frame of usual form, block by block (facts §1.7).

What is taken is what the library behind `protocol.codecs.lz4` takes, with the same bytes. Its rules for how a
block may end are kept, too, so that anything strange is left to it.
"""

import numpy as np

from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.memory import Bytes, copy_bytes, load_uint8, load_uint32
from spark_jobs.kernels.outcome import DONE, NEEDS_ROOM, UNUSUAL, Outcome
from spark_jobs.protocol.codecs.xxhash32 import xxhash32

_MAGIC = 0x04224D18
_FLAGS, _CONTENT_CHECKSUM = 0x60, 0x04
"""Version 01 with independent blocks: what Java, librdkafka and Go write."""
_START_SIZE = 7
_STORED = 0x80000000
_MOST_PER_BYTE = 255
_LAST_LITERALS, _LAST_MATCH, _LAST_SEQUENCE = 5, 12, 8
"""No match ends in the last 5 bytes of room or block, or begins in the last 12 of room or 8 of the block."""
_STRIDE, _HALF = 16, 8
_SLACK = _STRIDE
"""Room behind a block: matches are copied in strides, which may write further than they need."""
_SHORT_BYTES, _SHORT_CONTENT = 14 + 2 + _LAST_SEQUENCE, 14 + 18 + _LAST_MATCH
"""Bytes of a block behind a short sequence's token, and of room: what it takes and what must follow it."""
_FAILED = -1


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
def _read_length(data: Bytes, position: int, end: int, nibble: int) -> tuple[int, int]:
    """(length, position after it); the length is `_FAILED` if the block ends before it does."""
    if nibble < 15:
        return nibble, position
    length = nibble
    while position < end:
        byte = load_uint8(data, position)
        position += 1
        length += byte
        if byte < 255:
            return length, position
    return _FAILED, position


@helper
def _copy_match(memory: Bytes, at: int, distance: int, length: int) -> None:
    if distance >= _STRIDE:
        for copied in range(0, length, _STRIDE):
            copy_bytes(memory, at + copied, memory, at + copied - distance, _STRIDE)
    elif distance >= _HALF:
        for copied in range(0, length, _HALF):
            copy_bytes(memory, at + copied, memory, at + copied - distance, _HALF)
    else:  # it repeats what it is just writing
        for to in range(at, at + length):
            memory[to] = memory[to - distance]


@helper
def _put_block(memory: Bytes, at: int, room: int, data: Bytes, start: int, end: int) -> int:
    """Where the block's content ends that begins `at`, or `_FAILED`; there are `room` and `_SLACK` bytes."""
    position, out, room_end = start, at, at + room
    # Sequences in the middle are mostly short: a stride of literals, then at most two of an earlier place.
    short_end, short_room = end - _SHORT_BYTES, room_end - _SHORT_CONTENT
    while position < end:
        token = load_uint8(data, position)
        literals, length = token >> 4, (token & 15) + 4
        position += 1
        if literals < 15 and position < short_end and out < short_room:
            copy_bytes(memory, out, data, position, _STRIDE)
            position, out = position + literals, out + literals
            distance = load_uint8(data, position) | load_uint8(data, position + 1) << 8
            position += 2
            if length < 19 and distance >= _HALF and distance <= out - at:
                copy_bytes(memory, out, memory, out - distance, _HALF)
                copy_bytes(memory, out + _HALF, memory, out + _HALF - distance, _HALF)
                copy_bytes(memory, out + _STRIDE, memory, out + _STRIDE - distance, 2)
                out += length
                continue
        else:
            literals, position = _read_length(data, position, end, literals)
            if literals < 0 or literals > end - position or literals > room_end - out:
                return _FAILED
            copy_bytes(memory, out, data, position, literals)
            position, out = position + literals, out + literals
            if position == end:
                return out
            if position > end - _LAST_SEQUENCE or out > room_end - _LAST_MATCH:
                return _FAILED
            distance = load_uint8(data, position) | load_uint8(data, position + 1) << 8
            position += 2
        length, position = _read_length(data, position, end - _LAST_LITERALS, token & 15)
        length += 4
        if length < 4 or distance == 0 or distance > out - at or length > room_end - _LAST_LITERALS - out:
            return _FAILED
        _copy_match(memory, out, distance, length)
        out += length
    return _FAILED


@helper
def put_lz4(memory: Bytes, used: int, data: Bytes, start: int, end: int, limit: int) -> Outcome:
    """The content of the frame from `start` to `end`, put behind the bytes of `memory` that are used."""
    largest = _largest_block(data, start, end)
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
        if memory.size - out < room + _SLACK:
            return Outcome(NEEDS_ROOM, used, out - used + room + _SLACK)
        if word & _STORED:
            copy_bytes(memory, out, data, position, size)
            out += size
        else:
            out = _put_block(memory, out, room, data, position, position + size)
            if out == _FAILED:
                break
        position += size
    return Outcome(UNUSUAL, used, 0)
