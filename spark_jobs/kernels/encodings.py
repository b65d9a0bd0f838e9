"""Parquet's encodings inside kernels: plain bytes, packed differences, and runs.

Whoever calls has room for the longest outcome and `SLACK` bytes more: whole words are stored, of which only
the part that counts is kept.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import Bytes, copy_bytes, load_int64, load_uint8
from spark_jobs.kernels.stores import store_little

SLACK = 16
SIZE_BYTES = 4
"""A plain value of bytes has its size in front."""
BLOCK, MINIBLOCK = 128, 32
"""Differences are packed by blocks, which have one smallest one, of miniblocks, which have one width."""
_MINIBLOCKS = BLOCK // MINIBLOCK
_DELTA_HEAD, _BLOCK_BYTES = 2 + 1 + 10 + 10, 10 + _MINIBLOCKS + BLOCK * 8
"""Most bytes: of two sizes, a count and a number; and of the smallest difference, widths and differences."""
_SIGN, _GREATEST = -(2**63), 2**63 - 1
_LITERALS = 8
"""Values that are packed without being a run; as many of the same are one."""
_LONGEST_RUN = 5 + 4
"""Bytes: its length, and a value of 32 bits."""


def most_delta_bytes(values: int) -> int:
    """Room for that many packed differences."""
    return _DELTA_HEAD + (values // BLOCK + 1) * _BLOCK_BYTES + SLACK


def most_run_bytes(values: int, width: int) -> int:
    """Room for that many values of `width` bits, in runs or not."""
    return (values // _LITERALS + 1) * (width + _LONGEST_RUN) + SLACK


def most_given_run_bytes(runs: int) -> int:
    """Room for that many runs."""
    return runs * _LONGEST_RUN + SLACK


@helper
def _put_varint(target: Bytes, at: int, number: int) -> int:
    """An unsigned number, seven bits a byte; where it ends."""
    while number & ~0x7F:
        target[at] = (number & 0x7F) | 0x80
        number = (number >> 7) & 0x01FFFFFFFFFFFFFF
        at += 1
    target[at] = number
    return at + 1


@helper
def _zigzag(number: int) -> int:
    return (number << 1) ^ (number >> 63)


@helper
def _precedes(data: Bytes, one: int, one_size: int, other: int, other_size: int) -> bool:
    """Whether bytes come before others, as unsigned numbers."""
    common = min(one_size, other_size)
    done = 0
    while done + 8 <= common:
        left, right = load_int64(data, one + done), load_int64(data, other + done)
        if left != right:
            return (left ^ _SIGN) < (right ^ _SIGN)
        done += 8
    while done < common:
        left, right = load_uint8(data, one + done), load_uint8(data, other + done)
        if left != right:
            return left < right
        done += 1
    return one_size < other_size


@kernel
def put_plain(
    target: Bytes,
    at: int,
    data: Bytes,
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int32],
    first: int,
    stop: int,
) -> tuple[int, int, int]:
    """(where they end, row of the smallest, row of the greatest) of values, each with its size in front."""
    least = greatest = first
    for row in range(first, stop):
        start, size = starts[row], sizes[row]
        store_little(target, at, size)
        copy_bytes(target, at + SIZE_BYTES, data, start, size)
        at += SIZE_BYTES + size
        if _precedes(data, start, size, starts[least], sizes[least]):
            least = row
        if _precedes(data, starts[greatest], sizes[greatest], start, size):
            greatest = row
    return at, least, greatest


@kernel
def total_of(sizes: npt.NDArray[np.int32], first: int, stop: int) -> int:
    """How many bytes values have together."""
    total = 0
    for row in range(first, stop):
        total += sizes[row]
    return total


@kernel
def find_cuts(sizes: npt.NDArray[np.int32], page_bytes: int, cuts: npt.NDArray[np.int64]) -> int:
    """How many `cuts` were made: after each, a page of plain values has at least `page_bytes`."""
    found, page = 0, 0
    for row in range(sizes.size):
        page += SIZE_BYTES + sizes[row]
        if page >= page_bytes:
            cuts[found] = row + 1
            found, page = found + 1, 0
    return found


@helper
def _bits_of(number: int) -> int:
    """How many bits an unsigned number has."""
    if number < 0:
        return 64
    width = 0
    while number:
        number >>= 1
        width += 1
    return width


@helper
def _join(target: Bytes, at: int, held: int, filled: int, number: int, width: int) -> tuple[int, int, int]:
    """(where the next word goes, its bits so far, how many) after a number of `width` bits was put."""
    held |= number << filled
    if filled + width < 64:
        return at, held, filled + width
    store_little(target, at, held)
    rest = 0
    if filled:  # a signed shift would copy the top bit
        rest = (number >> (64 - filled)) & ((1 << filled) - 1)
    return at + 8, rest, filled + width - 64


@helper
def _pack_differences(
    target: Bytes, at: int, differences: npt.NDArray[np.int64], first: int, least: int, width: int
) -> int:
    """A miniblock; where it ends."""
    word, held, filled = at, 0, 0
    if width:
        for row in range(first, first + MINIBLOCK):
            word, held, filled = _join(target, word, held, filled, differences[row] - least, width)
        store_little(target, word, held)
    return at + MINIBLOCK // 8 * width


@helper
def _put_block(target: Bytes, at: int, differences: npt.NDArray[np.int64], count: int, least: int) -> int:
    """The differences of one block, of which there are `count`; where it ends."""
    widths = _put_varint(target, at, _zigzag(least))
    at = widths + _MINIBLOCKS
    for row in range(count, BLOCK):
        differences[row] = least
    for miniblock in range(_MINIBLOCKS):
        first, used = miniblock * MINIBLOCK, 0
        for row in range(first, first + MINIBLOCK):
            used |= differences[row] - least
        width = _bits_of(used)
        target[widths + miniblock] = width
        at = _pack_differences(target, at, differences, first, least, width) if first < count else at
    return at


@kernel
def put_delta(
    target: Bytes,
    at: int,
    values: npt.NDArray[Any],
    first: int,
    stop: int,
    bits: int,
    differences: npt.NDArray[np.int64],
) -> tuple[int, int, int]:
    """(where they end, the smallest, the greatest) of numbers of `bits` bits, one at least, as differences.

    Differences wrap around; `differences` has room for a block of them.
    """
    at = _put_varint(target, at, BLOCK)
    at = _put_varint(target, at, _MINIBLOCKS)
    at = _put_varint(target, at, stop - first)
    low = high = values[first]
    at = _put_varint(target, at, _zigzag(low))
    unused = 64 - bits
    for start in range(first + 1, stop, BLOCK):
        count = min(BLOCK, stop - start)
        least = _GREATEST
        for row in range(count):
            value = values[start + row]
            difference = ((value - values[start + row - 1]) << unused) >> unused
            differences[row] = difference
            least, low, high = min(least, difference), min(low, value), max(high, value)
        at = _put_block(target, at, differences, count, least)
    return at, low, high


@helper
def _put_literals(target: Bytes, at: int, values: npt.NDArray[Any], first: int, stop: int, width: int) -> int:
    """Values as they are, packed by eight, the last ones filled up with zeros; where they end."""
    if first == stop:
        return at
    groups = (stop - first + _LITERALS - 1) // _LITERALS
    at = _put_varint(target, at, groups << 1 | 1)
    word, held, filled = at, 0, 0
    for row in range(first, stop):
        word, held, filled = _join(target, word, held, filled, values[row], width)
    store_little(target, word, held)
    for byte in range(word + 8, at + groups * width):
        target[byte] = 0
    return at + groups * width


@helper
def _put_run(target: Bytes, at: int, value: int, length: int, width: int) -> int:
    at = _put_varint(target, at, length << 1)
    for byte in range((width + 7) // 8):
        target[at] = (value >> 8 * byte) & 0xFF
        at += 1
    return at


@kernel
def put_run(target: Bytes, at: int, value: int, length: int, width: int) -> int:
    """Where one value of `width` bits, so many times, ends."""
    return _put_run(target, at, value, length, width)


@kernel
def put_runs(target: Bytes, at: int, values: npt.NDArray[Any], first: int, stop: int, width: int) -> int:
    """Where values of `width` bits, no more than 32, end: what repeats as a run, the rest as it is."""
    waiting = row = first
    while row < stop:
        end = row + 1
        while end < stop and values[end] == values[row]:
            end += 1
        if end - row >= _LITERALS:
            at = _put_literals(target, at, values, waiting, row, width)
            at = _put_run(target, at, values[row], end - row, width)
            waiting = row = end
        else:
            row = min(row + _LITERALS, stop)
    return _put_literals(target, at, values, waiting, stop, width)


@kernel
def put_given_runs(
    target: Bytes, at: int, values: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64], width: int
) -> int:
    """Where runs end that are known as such; neighbours of the same value become one."""
    value, length = 0, 0
    for run in range(values.size):
        if length and values[run] != value:
            at, length = _put_run(target, at, value, length, width), 0
        value, length = values[run], length + lengths[run]
    return _put_run(target, at, value, length, width) if length else at
