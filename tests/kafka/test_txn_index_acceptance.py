"""The aborted index as brokers search and cut it (facts §1.9, §4.3; rows 128-131 of facts §9)."""

import pytest

from spark_jobs.kafka.errors import CorruptTxnIndex
from spark_jobs.kafka.formats.indexes import AbortedTxn, read_txn_index, write_txn_index
from spark_jobs.sample.broker.log_segment import append_aborted, search_aborted, truncate_aborted

ENTRIES = tuple(
    AbortedTxn(producer_id=pid, first_offset=first, last_offset=last, last_stable_offset=stable)
    for pid, (first, last, stable) in enumerate([(0, 10, 11), (5, 15, 13), (18, 35, 25), (32, 50, 40)])
)


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound", "found", "is_complete"),
    [
        pytest.param(0, 100, ENTRIES, False, id="row-128 beyond the index"),
        pytest.param(0, 32, ENTRIES[:3], True, id="row-128 up to the last transaction"),
        pytest.param(0, 35, ENTRIES, True, id="row-128 into the last transaction"),
        pytest.param(11, 35, ENTRIES[1:], True, id="row-128 after the first ended"),
        pytest.param(20, 41, ENTRIES[2:], False, id="row-128 the last two"),
        pytest.param(0, 40, ENTRIES, True, id="up to the stable offset of the last"),
    ],
)
def test_search(
    fetch_offset: int, upper_bound: int, found: tuple[AbortedTxn, ...], is_complete: bool
) -> None:
    search = search_aborted(ENTRIES, fetch_offset=fetch_offset, upper_bound_offset=upper_bound)
    assert (search.aborted, search.is_complete) == (found, is_complete)


def test_row_129_entries_must_end_one_after_the_other() -> None:
    again = AbortedTxn(producer_id=9, first_offset=1, last_offset=50, last_stable_offset=60)
    with pytest.raises(CorruptTxnIndex):
        append_aborted(ENTRIES, again)


@pytest.mark.parametrize(("target", "kept"), [(51, 4), (50, 3), (0, 0)])
def test_row_130_truncation_drops_entries_that_end_at_or_behind_it(target: int, kept: int) -> None:
    assert truncate_aborted(ENTRIES, target) == ENTRIES[:kept]


def test_row_131_an_entry_that_ends_before_its_segment_is_corrupt() -> None:
    data = write_txn_index(ENTRIES)
    assert read_txn_index(data, base_offset=10) == ENTRIES
    with pytest.raises(CorruptTxnIndex):
        read_txn_index(data, base_offset=11)
