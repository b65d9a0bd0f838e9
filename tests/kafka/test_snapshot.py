from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import CorruptSnapshot
from spark_jobs.kafka.formats.record_batch import crc32c
from spark_jobs.kafka.formats.snapshot import read_snapshot, write_snapshot
from spark_jobs.kafka.producers.producer_state import BatchMetadata, ProducerStateEntry
from tests.cases.formats import patched
from tests.cases.golden import EMPTY_SNAPSHOT, SNAPSHOT
from tests.kafka.strategies import ENTRIES

WITH_BATCH = ProducerStateEntry(
    producer_id=1,
    producer_epoch=2,
    coordinator_epoch=3,
    last_timestamp=-1,
    current_txn_first_offset=100,
    batches=(BatchMetadata(last_sequence=1, last_offset=2, offset_delta=3, timestamp=-1),),
)
WITHOUT_BATCH = ProducerStateEntry(
    producer_id=11, producer_epoch=12, coordinator_epoch=13, last_timestamp=123456
)


def resealed(data: bytes) -> bytes:
    """A snapshot whose CRC is right whatever it holds."""
    return data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:]


def as_reloaded(entry: ProducerStateEntry) -> ProducerStateEntry:
    """What a restart leaves of an entry (facts §1.8)."""
    return replace(
        entry, batches=tuple(replace(batch, timestamp=entry.last_timestamp) for batch in entry.batches[-1:])
    )


def test_row_56_golden_snapshot_with_and_without_batch() -> None:
    assert read_snapshot(SNAPSHOT) == (WITH_BATCH, WITHOUT_BATCH)
    assert write_snapshot((WITH_BATCH, WITHOUT_BATCH)) == SNAPSHOT


def test_golden_empty_snapshot_of_ten_bytes() -> None:
    assert read_snapshot(EMPTY_SNAPSHOT) == ()
    assert write_snapshot(()) == EMPTY_SNAPSHOT


@given(st.lists(ENTRIES, max_size=5))
def test_of_what_is_written_only_the_older_batches_are_lost(entries: list[ProducerStateEntry]) -> None:
    assert read_snapshot(write_snapshot(entries)) == tuple(as_reloaded(entry) for entry in entries)


def test_the_order_of_entries_is_kept() -> None:
    assert read_snapshot(write_snapshot((WITHOUT_BATCH, WITH_BATCH))) == (WITHOUT_BATCH, WITH_BATCH)


def test_a_last_offset_at_or_above_0_is_a_batch_even_without_a_sequence() -> None:
    batch = BatchMetadata(last_sequence=-1, last_offset=0, offset_delta=0, timestamp=5)
    entry = replace(WITHOUT_BATCH, last_timestamp=5, batches=(batch,))
    assert read_snapshot(write_snapshot([entry])) == (entry,)


def test_a_wrapped_batch_keeps_its_first_sequence() -> None:
    batch = BatchMetadata(last_sequence=9, last_offset=2020, offset_delta=20, timestamp=0)
    (entry,) = read_snapshot(write_snapshot([replace(WITH_BATCH, last_timestamp=0, batches=(batch,))]))
    assert (entry.first_sequence, entry.last_sequence) == (2**31 - 11, 9)


@pytest.mark.parametrize(
    ("data", "position"),
    [
        pytest.param(b"", 0, id="row 44: an empty file"),
        pytest.param(SNAPSHOT[:9], 0, id="row 44: shorter than the smallest snapshot"),
        pytest.param(SNAPSHOT[:-1], 2, id="row 44: truncated"),
        pytest.param(b"garbage garbage garbage", 0, id="row 44: garbage"),
        pytest.param(write_snapshot([WITH_BATCH]) + SNAPSHOT[56:], 2, id="row 174: over a longer file"),
        pytest.param(patched(SNAPSHOT, 30, b"\x77"), 2, id="a changed byte"),
        pytest.param(patched(SNAPSHOT, 0, b"\0\2"), 0, id="version 2"),
        pytest.param(patched(SNAPSHOT, 0, b"\0\0"), 0, id="version 0"),
        pytest.param(resealed(patched(SNAPSHOT, 6, b"\0\0\0\3")), 6, id="an entry more than there is"),
        pytest.param(resealed(patched(SNAPSHOT, 6, b"\x7f\xff\xff\xff")), 6, id="two billion entries"),
        pytest.param(resealed(patched(SNAPSHOT, 6, b"\xff\xff\xff\xff")), 6, id="a negative count"),
    ],
)
def test_a_snapshot_that_a_broker_would_delete_is_corrupt(data: bytes, position: int) -> None:
    with pytest.raises(CorruptSnapshot) as raised:
        read_snapshot(data, source="42.snapshot")
    assert (raised.value.source, raised.value.position) == ("42.snapshot", position)


def test_bytes_after_the_entries_that_the_crc_covers_are_ignored() -> None:
    assert read_snapshot(resealed(EMPTY_SNAPSHOT + b"tail")) == ()
