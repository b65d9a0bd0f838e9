"""State files: canonical, proved by their name, and readable for ever."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.checkpoints import EpochEntry
from spark_jobs.kafka.producers.verdict import BatchRow, Rules
from spark_jobs.kernels.admission import fold
from spark_jobs.kernels.partition_transactions import TransactionTable
from spark_jobs.kernels.producers import PRODUCER, ProducerTable, Rows, states_of
from spark_jobs.lake.errors import BrokenState
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.inherited_rows import (
    INHERITED,
    get_inherited,
    put_inherited,
    read_inherited,
    with_needed_objects,
    write_inherited,
)
from spark_jobs.lake.layout import state_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.states import (
    MANY_PRODUCERS,
    PartitionState,
    get_state,
    make_states_durable,
    put_state,
    read_state,
    write_state,
)
from tests.kernels.histories import columns_of, histories

KEPT = Path(__file__).parent / "states"
OFFSETS = st.integers(0, 2**62)
TOPIC_ID = "25SNuNZhRx2La2_fVdm_UQ"


@st.composite
def states(draw: st.DrawFn) -> PartitionState:
    """A state as some run leaves it."""
    producers, transactions = ProducerTable(end_offset=draw(OFFSETS)), TransactionTable()
    batches = columns_of(draw(histories()))
    transactions.track(batches, fold(batches, producers, rules=Rules()))
    starts = sorted(draw(st.sets(OFFSETS, max_size=3)))
    return PartitionState(
        log_start_offset=draw(OFFSETS),
        end_offset=producers.end_offset,
        published_offset=draw(OFFSETS),
        leader_epochs=tuple(EpochEntry(epoch=n, start_offset=start) for n, start in enumerate(starts)),
        producers=producers.rows,
        open_transactions=transactions.open_transactions(),
        parked=draw(st.sampled_from(("", "ab" * 32))),
        gaps=draw(st.sampled_from(("", "cd" * 32))),
        topic_id=draw(st.sampled_from(("", TOPIC_ID))),
    )


@given(states())
def test_a_state_survives_its_file(state: PartitionState) -> None:
    found = read_state(write_state(state))
    assert write_state(found) == write_state(state)
    assert (found.end_offset, found.leader_epochs) == (state.end_offset, state.leader_epochs)
    assert (found.parked, found.gaps, found.published_offset, found.topic_id) == (
        state.parked,
        state.gaps,
        state.published_offset,
        state.topic_id,
    )
    assert found.producers.tobytes() == ProducerTable(state.producers).canonical().tobytes()
    for name in ("producer_id", "first_offset", "batches", "records", "producer_epoch", "first_epoch"):
        assert found.open_transactions[name].tolist() == state.open_transactions[name].tolist()
    assert (found.open_transactions["began_before"] == 1).all()


@given(histories(), st.randoms(use_true_random=False))
def test_equal_states_are_equal_bytes_however_they_came_about(rows: list[BatchRow], random: Random) -> None:
    producers = ProducerTable()
    fold(columns_of(rows), producers, rules=Rules())
    shuffled = producers.rows.copy()
    random.shuffle(order := list(range(len(shuffled))))
    again = ProducerTable(shuffled[order], end_offset=producers.end_offset)
    one, two = (PartitionState(producers=table.rows) for table in (producers, again))
    canonical = PartitionState(producers=producers.canonical())
    assert write_state(one) == write_state(two) == write_state(canonical)


def very_many() -> Rows:
    """Producers by descending id, each with six batches behind it, of which five are remembered."""
    count = MANY_PRODUCERS + 1
    rows = np.zeros(count, dtype=PRODUCER)
    rows["producer_id"], rows["batches"], rows["oldest"] = np.arange(count)[::-1], 5, 1
    rows["last_sequence"] = rows["last_offset"] = rows["producer_id"][:, np.newaxis] + [5, 1, 2, 3, 4]
    return rows


def test_a_state_of_very_many_producers_is_the_same_file(store: ObjectStore) -> None:
    state = PartitionState(end_offset=5, producers=very_many())
    digest = put_state(store, state)
    assert store.read(state_key(digest)) == write_state(state)
    found = get_state(store, digest).producers
    assert found["producer_id"].tolist() == list(range(MANY_PRODUCERS + 1))
    for name in ("last_sequence", "last_offset"):
        assert (found[name] == found["producer_id"][:, np.newaxis] + [1, 2, 3, 4, 5]).all()
    assert not found["oldest"].any()


def test_a_state_can_be_read_without_its_producers(tmp_path: Path) -> None:
    lake = FileStore(str(tmp_path))
    state = read_state((KEPT / "version_1.state").read_bytes())
    found = get_state(lake, put_state(lake, state), with_producers=False)
    assert not len(found.producers)
    assert write_state(found) == write_state(state.without_producers())


def test_a_state_of_very_many_producers_is_written_once_and_anew_where_it_was_cut_short(
    store: ObjectStore,
) -> None:
    state = PartitionState(producers=very_many())
    digest = put_state(store, state)
    before = store.stat(state_key(digest))
    assert put_state(store, state, durable=False) == digest
    assert store.stat(state_key(digest)) == before
    store.put(state_key(digest), write_state(state)[:-1])
    assert put_state(store, state, durable=False) == digest
    assert store.read(state_key(digest)) == write_state(state)
    assert not list(store.scratch().iterdir())


def test_a_state_of_version_1_is_still_read() -> None:
    data = (KEPT / "version_1.state").read_bytes()
    state = read_state(data)
    assert write_state(state) == data
    assert (state.log_start_offset, state.end_offset, state.published_offset) == (90, 120, 114)
    assert [(entry.epoch, entry.start_offset) for entry in state.leader_epochs] == [(0, 0), (3, 57)]
    known = states_of(ProducerTable(state.producers)).producers
    assert [batch.first_sequence for batch in known[7].batches] == [4, 6, 8, 10, 12]
    assert (known[3].current_txn_first_offset, known[3].last_sequence) == (114, 2)
    assert (known[9].producer_epoch, known[9].coordinator_epoch, known[9].batches) == (2, 5, ())
    [opened] = state.open_transactions
    assert (opened["producer_id"], opened["first_offset"], opened["records"]) == (3, 114, 5)


def test_a_gap_inside_an_open_transaction_is_reported_by_version_2() -> None:
    state = read_state((KEPT / "version_1.state").read_bytes())
    opened = state.open_transactions.copy()
    opened["gap_first_offset"], opened["gap_last_offset"] = 116, 117
    data = write_state(replace(state, open_transactions=opened))
    assert data[5] == 2
    [found] = read_state(data).open_transactions
    assert (found["gap_first_offset"], found["gap_last_offset"]) == (116, 117)
    assert write_state(read_state(data)) == data


def test_a_topic_id_is_kept_by_version_3_and_earlier_versions_have_none() -> None:
    state = read_state((KEPT / "version_1.state").read_bytes())
    assert state.topic_id == ""
    data = write_state(replace(state, topic_id=TOPIC_ID))
    assert data == (KEPT / "version_3.state").read_bytes()
    found = read_state(data)
    assert found.topic_id == TOPIC_ID
    assert write_state(replace(found, topic_id="")) == write_state(state)


def test_inherited_rows_of_version_1_are_still_read() -> None:
    data = (KEPT / "version_1.inherited").read_bytes()
    inherited = read_inherited(data)
    assert write_inherited(inherited) == data
    assert [each.path for each in inherited.objects] == [
        "dt=2024-05-01/orders-0/a",
        "dt=2024-05-01/orders-0/b",
    ]
    assert inherited.rows["base_sequence"].tolist() == [4, 9]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ONCE",
        b"ONCE\0\3" + bytes(100),
        b"ONCE\0\4" + bytes(200),
        b"JUNK\0\1" + bytes(100),
        b"ONCE\0\1" + bytes(50),
        write_state(PartitionState())[:-1] + b"\7",
    ],
)
def test_what_is_no_state_file_is_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(BrokenState, match="here: "):
        read_state(data, source="here")


@pytest.mark.parametrize("data", [b"", b"CARR\0\2\0\0\0\0", b"ONCE\0\1\0\0\0\0"])
def test_what_is_no_file_of_inherited_rows_is_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(BrokenState, match="here: "):
        read_inherited(data, source="here")


def test_a_file_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    lake = FileStore(str(tmp_path))
    digest = put_state(lake, PartitionState(end_offset=5))
    assert put_state(lake, PartitionState(end_offset=5)) == digest
    assert get_state(lake, digest).end_offset == 5
    lake.put(state_key(digest), write_state(PartitionState(end_offset=6)))
    with pytest.raises(BrokenState, match="expected SHA-256"):
        get_state(lake, digest)


def test_a_state_that_was_cut_short_is_written_anew(tmp_path: Path) -> None:
    lake, state = FileStore(str(tmp_path)), PartitionState(end_offset=5)
    digest = put_state(lake, state, durable=False)
    lake.put(state_key(digest), write_state(state)[:-1])
    assert put_state(lake, state, durable=False) == digest
    make_states_durable(lake, [digest, digest])
    assert get_state(lake, digest).end_offset == 5


def test_inherited_rows_keep_only_the_objects_that_they_need(tmp_path: Path) -> None:
    lake, kept = FileStore(str(tmp_path)), read_inherited((KEPT / "version_1.inherited").read_bytes())
    second = with_needed_objects(kept.objects, kept.rows[1:])
    found = get_inherited(lake, put_inherited(lake, second))
    assert [each.path for each in found.objects] == ["dt=2024-05-01/orders-0/b"]
    assert found.rows["object"].tolist() == [0]
    assert put_inherited(lake, replace(second, rows=np.empty(0, dtype=INHERITED))) == ""
    assert len(get_inherited(lake, "").rows) == 0
