"""The aborted index: built, searched, truncated (facts §4.2-4.3, §9 rows 128-130)."""

import pytest
from hypothesis import given

from spark_jobs.kafka.errors import CorruptTxnIndex
from spark_jobs.kafka.formats.indexes import AbortedTxn
from spark_jobs.sample.broker.log_segment import (
    aborted_for_fetch,
    append_aborted,
    build_aborted_index,
    search_aborted,
    truncate_aborted,
)
from tests.kafka.txn_logs import STEPS, log_batches, write_log


def entry(first: int, last: int, stable: int, pid: int = 0) -> AbortedTxn:
    return AbortedTxn(producer_id=pid, first_offset=first, last_offset=last, last_stable_offset=stable)


INDEX = (entry(0, 10, 11), entry(5, 15, 13), entry(18, 35, 25), entry(32, 50, 40))


@pytest.mark.parametrize(
    ("fetch", "upper", "found", "is_complete"),
    [
        pytest.param(0, 100, INDEX, False, id="row-128 the whole log: later segments may have more"),
        pytest.param(0, 32, INDEX[:3], True, id="row-128 the last one begins at the bound"),
        pytest.param(0, 35, INDEX, True, id="row-128 the last one begins below the bound"),
        pytest.param(11, 35, INDEX[1:], True, id="row-128 the first one ended before"),
        pytest.param(20, 41, INDEX[2:], False, id="row-128 nothing proves that there is no more"),
    ],
)
def test_a_search_finds_what_touches_the_range_and_knows_when_to_stop(
    fetch: int, upper: int, found: tuple[AbortedTxn, ...], is_complete: bool
) -> None:
    search = search_aborted(INDEX, fetch_offset=fetch, upper_bound_offset=upper)
    assert (search.aborted, search.is_complete) == (found, is_complete)


def test_a_fetch_continues_to_later_segments_until_the_search_is_complete() -> None:
    segments = (INDEX[:1], INDEX[1:3], INDEX[3:])
    found = aborted_for_fetch(segments, fetch_offset=0, upper_bound_offset=20)
    assert found == INDEX[:3]


@pytest.mark.parametrize("last_offset", [50, 49])
def test_row_129_entries_only_ever_follow_each_other(last_offset: int) -> None:
    with pytest.raises(CorruptTxnIndex, match="a last offset above 50"):
        append_aborted(INDEX, entry(40, last_offset, 51))
    assert append_aborted(INDEX, entry(40, 51, 52)) == (*INDEX, entry(40, 51, 52))


def test_row_130_a_cut_keeps_the_transactions_whose_marker_stays() -> None:
    assert [len(truncate_aborted(INDEX, offset)) for offset in (51, 50, 0)] == [4, 3, 0]


def test_an_entry_is_written_for_an_abort_that_closed_something() -> None:
    log = write_log(
        [("data", 1), ("data", 2), ("abort", 3), ("abort", 1), ("commit", 2), ("abort", 2), ("data", 4)]
    )
    assert tuple(build_aborted_index(log_batches(*log))) == (entry(0, 5, 2, pid=1),)


def test_the_last_stable_offset_is_where_the_oldest_other_transaction_begins() -> None:
    log = write_log([("data", 1), ("data", 2), ("abort", 2), ("abort", 1)])
    found = tuple(build_aborted_index(log_batches(*log)))
    assert found == (entry(2, 4, 0, pid=2), entry(0, 5, 6, pid=1))


@given(steps=STEPS)
def test_a_leaders_index_never_hides_an_abort_whatever_the_range(steps: list[tuple[str, int]]) -> None:
    index = tuple(build_aborted_index(log_batches(*write_log(steps))))
    end = index[-1].last_offset + 2 if index else 1
    for fetch in range(end):
        for upper in range(fetch + 1, end):
            found = search_aborted(index, fetch_offset=fetch, upper_bound_offset=upper).aborted
            missed = [e for e in index if e not in found]
            assert not [e for e in missed if e.first_offset < upper and e.last_offset >= fetch]
