"""The run's cut: as far as possible, and no transaction on both sides."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.pipeline.context import share_out
from spark_jobs.pipeline.resolve.cuts import Extents, lower_cuts
from spark_jobs.pipeline.resolve.parts import Int64s, bucket_count, bucket_of

Part = tuple[int, int, int, int]
"""Transaction, partition, first and last offset."""


def extents(parts: list[Part]) -> Extents:
    rows = np.array(parts, dtype=np.int64).reshape(-1, 4)
    return Extents(
        transaction=rows[:, 0].astype(np.int32),
        partition=rows[:, 1].astype(np.int32),
        first_offset=rows[:, 2],
        last_offset=rows[:, 3],
    )


def offsets(*values: int) -> Int64s:
    return np.array(values, dtype=np.int64)


def test_nothing_moves_where_every_transaction_is_before_the_cuts() -> None:
    cuts = offsets(10, 20)
    assert lower_cuts(extents([(0, 0, 3, 9), (0, 1, 5, 19)]), cuts, offsets(0, 0)) is cuts


def test_a_transaction_beyond_one_cut_waits_on_all_its_partitions() -> None:
    parts = extents([(0, 0, 3, 9), (0, 1, 5, 20)])
    assert lower_cuts(parts, offsets(10, 20), offsets(0, 0)).tolist() == [3, 5]


def test_one_that_waits_makes_others_wait() -> None:
    parts = extents([(0, 0, 8, 12), (0, 1, 6, 6), (1, 1, 2, 7), (1, 2, 4, 4), (2, 2, 0, 3)])
    assert lower_cuts(parts, offsets(10, 20, 30), offsets(0, 0, 0)).tolist() == [8, 2, 4]


def test_what_is_published_stays_published() -> None:
    parts = extents([(0, 0, 3, 12), (0, 1, 5, 6)])
    assert lower_cuts(parts, offsets(10, 20), offsets(0, 7)).tolist() == [3, 7]


PARTS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 30), st.integers(0, 8)).map(
        lambda row: (row[0], row[1], row[2], row[2] + row[3])
    ),
    max_size=12,
)


@given(parts=PARTS, cuts=st.lists(st.integers(0, 40), min_size=4, max_size=4))
def test_no_transaction_is_torn_and_no_cut_could_be_later(parts: list[Part], cuts: list[int]) -> None:
    lowered = lower_cuts(extents(parts), offsets(*cuts), offsets(0, 0, 0, 0)).tolist()
    transactions: dict[int, list[Part]] = {}
    for part in parts:
        transactions.setdefault(part[0], []).append(part)
    held = [
        part
        for own in transactions.values()
        if any(last >= lowered[partition] for _, partition, _, last in own)
        for part in own
    ]
    assert all(first >= lowered[partition] for _, partition, first, _ in held)
    for partition, cut in enumerate(lowered):
        assert cut in {cuts[partition], *(first for _, p, first, _ in held if p == partition)}


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 8))
def test_shares_hold_every_item_once_and_in_order(costs: list[int], shares: int) -> None:
    found = share_out(costs, shares)
    assert [item for share in found for item in share] == list(range(len(costs)))
    assert len(found) <= shares
    assert all(found)


def test_buckets_follow_from_the_runs_size_alone() -> None:
    assert [bucket_count(n) for n in (0, 1, 40_000, 40_001, 10**6, 10**9)] == [1, 1, 1, 2, 32, 256]
    ids = np.arange(10_000, dtype=np.int64)
    counted = np.bincount(bucket_of(ids, 8), minlength=8)
    assert counted.min() > 1000
