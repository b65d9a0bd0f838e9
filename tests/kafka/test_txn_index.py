import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import CorruptTxnIndex
from spark_jobs.kafka.formats.indexes import AbortedTxn, read_txn_index, write_txn_index
from tests.cases.formats import patched
from tests.cases.golden import TXN_INDEX_ENTRY
from tests.kafka.strategies import ABORTED_TXNS

GOLDEN = AbortedTxn(producer_id=983493, first_offset=137, last_offset=299, last_stable_offset=200)


def test_golden_entry_is_read_and_written() -> None:
    assert read_txn_index(TXN_INDEX_ENTRY) == (GOLDEN,)
    assert write_txn_index([GOLDEN]) == TXN_INDEX_ENTRY


@given(st.lists(ABORTED_TXNS, max_size=5))
def test_what_is_written_is_read(entries: list[AbortedTxn]) -> None:
    assert read_txn_index(write_txn_index(entries)) == tuple(entries)


def test_an_empty_file_is_an_index_without_entries() -> None:
    assert read_txn_index(b"") == ()


@pytest.mark.parametrize("kept", [1, 33])
def test_a_partial_last_entry_is_ignored(kept: int) -> None:
    assert read_txn_index(TXN_INDEX_ENTRY + TXN_INDEX_ENTRY[:kept]) == (GOLDEN,)


def test_row_131_an_entry_that_ends_before_the_segment_is_corrupt() -> None:
    assert read_txn_index(TXN_INDEX_ENTRY, base_offset=299) == (GOLDEN,)
    with pytest.raises(CorruptTxnIndex) as raised:
        read_txn_index(TXN_INDEX_ENTRY * 2, base_offset=300, source="300.txnindex")
    assert (raised.value.source, raised.value.position, raised.value.found) == ("300.txnindex", 0, "299")


def test_a_later_version_is_refused_by_the_one_byte_that_a_broker_reads() -> None:
    with pytest.raises(CorruptTxnIndex) as raised:
        read_txn_index(TXN_INDEX_ENTRY + patched(TXN_INDEX_ENTRY, 0, b"\1\0"))
    assert raised.value.position == 34
    assert read_txn_index(patched(TXN_INDEX_ENTRY, 0, b"\0\1")) == (GOLDEN,)
