"""Hashes of ids: SipHash-2-4 as its authors published it, and ranges of hashes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kernels.ids import bucket_of, bucket_range, first_rows, hash_ids, places_of

KEY = bytes(range(16))
MASK = 2**64 - 1
VECTORS = {0: 0x726FDB47DD0E0E31, 8: 0x93F5F5799A932462, 15: 0xA129CA6149BE45E5}
"""From the appendix of the paper: the hash of the bytes 0, 1, 2, … of that length."""


def _hash(*ids: bytes, key: bytes = KEY) -> list[int]:
    ends = np.cumsum([0, *map(len, ids)])
    data = np.frombuffer(b"".join(ids), dtype=np.uint8)
    return [int(each) ^ (1 << 63) for each in hash_ids(data, ends, key).view(np.uint64)]


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (64 - bits)) & MASK


def _round(v: list[int]) -> None:
    for a, b, c in ((0, 1, 13), (2, 3, 16)):
        v[a] = (v[a] + v[b]) & MASK
        v[b] = _rotate(v[b], c) ^ v[a]
    v[0] = _rotate(v[0], 32)
    for a, b, c in ((0, 3, 21), (2, 1, 17)):
        v[a] = (v[a] + v[b]) & MASK
        v[b] = _rotate(v[b], c) ^ v[a]
    v[2] = _rotate(v[2], 32)


def _siphash(data: bytes, key: bytes) -> int:
    """The specification, one step at a time."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        _round(v)
        _round(v)
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        _round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


@pytest.mark.parametrize(("size", "expected"), VECTORS.items())
def test_published_vectors(size: int, expected: int) -> None:
    assert _hash(bytes(range(size))) == [expected]


@given(st.lists(st.binary(max_size=40), max_size=8), st.binary(min_size=16, max_size=16))
def test_the_kernel_is_the_specification(ids: list[bytes], key: bytes) -> None:
    assert _hash(*ids, key=key) == [_siphash(each, key) for each in ids]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), st.integers(0, 12))
def test_a_bucket_is_a_range_of_hashes(values: list[int], bits: int) -> None:
    hashes = np.array(values, dtype=np.int64)
    for value, bucket in zip(values, bucket_of(hashes, 1 << bits).tolist(), strict=True):
        first, last = bucket_range(bucket, 1 << bits)
        assert first <= value <= last


@given(st.lists(st.integers(0, 9), max_size=12), st.lists(st.integers(0, 9), max_size=12))
def test_places_of_wanted_hashes(wanted: list[int], hashes: list[int]) -> None:
    found = places_of(np.unique(np.array(wanted, dtype=np.int64)), np.sort(np.array(hashes, dtype=np.int64)))
    assert found.tolist() == [place for place, each in enumerate(sorted(hashes)) if each in wanted]


def test_buckets_cover_all_hashes() -> None:
    ranges = [bucket_range(bucket, 8) for bucket in range(8)]
    assert (ranges[0][0], ranges[-1][1]) == (-(2**63), 2**63 - 1)
    assert all(one[1] + 1 == other[0] for one, other in pairwise(ranges))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), max_size=14),
    st.integers(0, 14),
    st.one_of(st.integers(0, 4), st.just(1 << 40)),
)
def test_first_rows_are_those_of_a_loop(rows: list[tuple[int, int]], known: int, window: int) -> None:
    known = min(known, len(rows))
    rows = sorted(rows[:known], key=lambda row: row[1]) + sorted(rows[known:], key=lambda row: row[1])
    newest: dict[int, int] = {}
    expected = []
    for place, (code, day) in enumerate(rows):
        first = newest.get(code)
        is_later = place >= known and first is not None and rows[first][1] + window >= day
        expected.append(newest[code] if is_later else -1)
        if not is_later:
            newest[code] = place
    codes = np.array([code for code, _ in rows], dtype=np.int32)
    days = np.array([day for _, day in rows], dtype=np.int64)
    assert first_rows(codes, days, known=known, window=window).tolist() == expected
