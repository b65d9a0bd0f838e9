"""Keyed 64-bit hashes of business ids: SipHash-2-4 of many byte strings in one call.

A hash is an int64 that sorts as its unsigned value does: the highest bit is flipped.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import Bytes, read_only

Hashes = npt.NDArray[np.int64]
Word: TypeAlias = np.uint64

_C0, _C1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_C2, _C3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
_FINAL, _SIGN = np.uint64(0xFF), np.uint64(1 << 63)
_U13, _U16, _U17, _U21, _U32 = (np.uint64(bits) for bits in (13, 16, 17, 21, 32))
_U8, _U56, _U64 = np.uint64(8), np.uint64(56), np.uint64(64)
HASH_BITS = 64


@helper
def _rotate(word: Word, bits: Word) -> Word:
    return (word << bits) | (word >> (_U64 - bits))


@helper
def _round(v0: Word, v1: Word, v2: Word, v3: Word) -> tuple[Word, Word, Word, Word]:
    v0 += v1
    v1 = _rotate(v1, _U13) ^ v0
    v0 = _rotate(v0, _U32)
    v2 += v3
    v3 = _rotate(v3, _U16) ^ v2
    v0 += v3
    v3 = _rotate(v3, _U21) ^ v0
    v2 += v1
    v1 = _rotate(v1, _U17) ^ v2
    v2 = _rotate(v2, _U32)
    return v0, v1, v2, v3


@helper
def _word(data: Bytes, start: int, size: int) -> Word:
    """Up to eight bytes as a little-endian number."""
    word = np.uint64(0)
    for place in range(size):
        word |= np.uint64(data[start + place]) << (np.uint64(place) * _U8)
    return word


@kernel
def _hash_all(data: Bytes, ends: Hashes, k0: Word, k1: Word, hashes: npt.NDArray[np.uint64]) -> None:
    """`ends[i]` and `ends[i + 1]` are where string `i` begins and ends in `data`."""
    for row in range(hashes.size):
        start, size = ends[row], ends[row + 1] - ends[row]
        v0, v1, v2, v3 = _C0 ^ k0, _C1 ^ k1, _C2 ^ k0, _C3 ^ k1
        whole = size - size % 8
        for place in range(0, whole, 8):
            word = _word(data, start + place, 8)
            v3 ^= word
            for _ in range(2):
                v0, v1, v2, v3 = _round(v0, v1, v2, v3)
            v0 ^= word
        word = _word(data, start + whole, size % 8) | (np.uint64(size) << _U56)
        v3 ^= word
        for _ in range(2):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        v2 ^= _FINAL
        for _ in range(4):
            v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        hashes[row] = v0 ^ v1 ^ v2 ^ v3 ^ _SIGN


def hash_ids(data: Bytes, ends: npt.NDArray[np.int64], key: bytes) -> Hashes:
    """The hash of each string of `data` with a key of 16 bytes; `ends` has one entry more than strings."""
    hashes = np.empty(max(len(ends) - 1, 0), dtype=np.uint64)
    k0, k1 = np.frombuffer(key, dtype="<u8").astype(np.uint64)
    _hash_all(read_only(data, np.uint8), read_only(ends, np.int64), k0, k1, hashes)
    return hashes.view(np.int64)


def bucket_of(hashes: Hashes, buckets: int) -> npt.NDArray[np.int32]:
    """Which of the `buckets`, a power of two, has the range of each hash."""
    bits = np.uint64(buckets.bit_length() - 1)
    if not bits:
        return np.zeros(hashes.size, dtype=np.int32)
    unsigned = hashes.view(np.uint64) ^ _SIGN
    return (unsigned >> (_U64 - bits)).astype(np.int32)


def bucket_range(bucket: int, buckets: int) -> tuple[int, int]:
    """The first and the last hash of a bucket."""
    width = (1 << HASH_BITS) // buckets
    first = bucket * width - (1 << (HASH_BITS - 1))
    return first, first + width - 1


@kernel
def _meet(wanted: Hashes, hashes: Hashes, places: npt.NDArray[np.int64]) -> int:
    """Places in `hashes` of what is `wanted`, both sorted; returns how many there are."""
    count = near = 0
    for place in range(hashes.size):
        while near < wanted.size and wanted[near] < hashes[place]:
            near += 1
        if near == wanted.size:
            break
        if wanted[near] == hashes[place]:
            places[count] = place
            count += 1
    return count


def places_of(wanted: Hashes, hashes: Hashes) -> npt.NDArray[np.int64]:
    """Where the sorted `hashes` have one of the `wanted` ones, which are sorted, too."""
    if not wanted.size or not hashes.size:
        return np.empty(0, dtype=np.int64)
    near = wanted[np.searchsorted(wanted, hashes[0]) : np.searchsorted(wanted, hashes[-1], "right")]
    places = np.empty(hashes.size, dtype=np.int64)
    return places[: _meet(read_only(near, np.int64), read_only(hashes, np.int64), places)]


@kernel
def _follow(
    codes: npt.NDArray[np.int32],
    days: npt.NDArray[np.int64],
    known: int,
    window: int,
    newest: npt.NDArray[np.int64],
    firsts: npt.NDArray[np.int64],
) -> None:
    for row in range(codes.size):
        first = newest[codes[row]]
        if row >= known and first >= 0 and days[first] >= days[row] - window:
            firsts[row] = first
        else:
            newest[codes[row]] = row


def first_rows(
    codes: npt.NDArray[np.int32], days: npt.NDArray[np.int64], *, known: int, window: int
) -> npt.NDArray[np.int64]:
    """The row of each row's first record, -1 where it is a first record itself.

    Rows with the same code have the same id; the first record comes first. The first `known` rows are first
    records. A first record counts for rows of its day and of `window` days after it.
    """
    firsts = np.full(codes.size, -1, dtype=np.int64)
    newest = np.full(int(codes.max()) + 1 if codes.size else 0, -1, dtype=np.int64)
    _follow(read_only(codes, np.int32), read_only(days, np.int64), known, window, newest, firsts)
    return firsts
