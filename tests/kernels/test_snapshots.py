"""Snapshots written and read as rows are those of `kafka.formats.snapshot`, byte for byte."""

import pytest
from hypothesis import given

from spark_jobs.kafka.errors import CorruptSnapshot
from spark_jobs.kafka.formats import snapshot
from spark_jobs.kafka.producers.producer_state import ProducerStates
from spark_jobs.kernels import producers as snapshots
from spark_jobs.kernels.producers import ProducerTable, rows_of_entries, states_of, table_of
from tests.cases.golden import EMPTY_SNAPSHOT, SNAPSHOT
from tests.kernels.test_admission import starts


@given(starts())
def test_rows_make_the_file_that_their_entries_make(states: ProducerStates) -> None:
    rows = table_of(states).canonical()
    entries = [states.producers[producer_id] for producer_id in rows["producer_id"]]
    assert snapshots.write_snapshot(rows) == snapshot.write_snapshot(entries)


@given(starts())
def test_rows_in_any_order_make_the_file_of_entries_by_producer_id(states: ProducerStates) -> None:
    rows = table_of(states).rows[::-1].copy()
    entries = [states.producers[producer_id] for producer_id in sorted(states.producers)]
    assert snapshots.write_canonical_snapshot(rows) == snapshot.write_snapshot(entries)


@given(starts())
def test_a_file_makes_the_rows_that_its_entries_make(states: ProducerStates) -> None:
    data = snapshot.write_snapshot(states.producers.values())
    expected = rows_of_entries(snapshot.read_snapshot(data))
    assert snapshots.read_snapshot(data).tobytes() == expected.tobytes()


@pytest.mark.parametrize("data", [SNAPSHOT, EMPTY_SNAPSHOT])
def test_kafkas_own_bytes_survive_the_way_in_and_out(data: bytes) -> None:
    rows = snapshots.read_snapshot(data)
    assert snapshots.write_snapshot(rows) == data
    assert list(states_of(ProducerTable(rows)).producers.values()) == list(snapshot.read_snapshot(data))


@pytest.mark.parametrize("data", [b"", SNAPSHOT[:-1], SNAPSHOT + b"\0", b"\0\2" + SNAPSHOT[2:]])
def test_a_corrupt_file_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        snapshots.read_snapshot(data)
