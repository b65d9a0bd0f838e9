import threading

import pytest

from spark_jobs.flow import Step
from spark_jobs.lake.chain import Chain, ChainEntry, make_final, read_chain
from spark_jobs.lake.errors import BrokenChain, ChainConflict, OutOfTurn
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.layout import chain_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import EMPTY_STATE, RunInputs
from tests.lake.runs import day, finish_run, inputs_of


def test_a_lake_begins_with_the_empty_state(lake: FileStore) -> None:
    chain = read_chain(lake)
    assert (chain.head, chain.state_before(day(1)), chain.stale()) == (None, EMPTY_STATE, ())


def test_each_run_starts_from_the_state_of_the_one_before(store: ObjectStore) -> None:
    first = finish_run(store, 1, state="s1")
    second = finish_run(store, 3, state="s3")
    chain = read_chain(store)
    assert chain.entries == (first, second)
    assert (first.state_in, second.state_in, second.parent) == (EMPTY_STATE, "s1", first.digest)
    assert [chain.state_before(day(number)) for number in (1, 2, 3, 4)] == [EMPTY_STATE, "s1", "s1", "s3"]


def test_making_the_same_run_final_again_changes_nothing(store: ObjectStore) -> None:
    first = finish_run(store, 1, state="s1")
    assert finish_run(store, 1, state="s1") == first
    assert read_chain(store).entries == (first,)


def test_a_run_that_goes_further_later_is_recorded_as_the_same_run(lake: FileStore) -> None:
    first = finish_run(lake, 1, state="s1", last_step=Step.ADMIT)
    further = finish_run(lake, 1, state="s1", last_step=Step.PUBLISH)
    chain = read_chain(lake)
    assert (further.run_id, further.replaces) == (first.run_id, "")
    assert chain.is_final(first.run_id, Step.RESOLVE)
    assert not Chain((first,)).is_final(first.run_id, Step.RESOLVE)


def test_of_two_runs_of_one_run_one_wins_and_the_other_is_reported(store: ObjectStore) -> None:
    chain = read_chain(store)
    _finish(store, chain, inputs_of(store, 1, "one"))
    with pytest.raises(ChainConflict, match="another run became final first") as caught:
        _finish(store, chain, inputs_of(store, 1, "two"))
    assert caught.value.transient
    assert [entry.manifest for entry in read_chain(store).entries] == ["one"]


def test_of_many_runs_that_end_at_once_exactly_one_becomes_final(store: ObjectStore) -> None:
    chain, start = read_chain(store), threading.Barrier(8)
    won: list[ChainEntry] = []

    def contend(number: int) -> None:
        inputs = inputs_of(store, 1, str(number))
        start.wait()
        try:
            won.append(_finish(store, chain, inputs))
        except ChainConflict:
            return

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tuple(won) == read_chain(store).entries


def test_a_run_from_an_outdated_state_cannot_become_final(lake: FileStore) -> None:
    inputs = inputs_of(lake, 2)
    finish_run(lake, 1, state="s1")
    with pytest.raises(ChainConflict, match="no longer the one before its date"):
        _finish(lake, read_chain(lake), inputs)


def test_a_backfill_replaces_the_run_of_its_date_and_shows_what_it_outdates(lake: FileStore) -> None:
    old, _, third = [finish_run(lake, number, state=f"s{number}") for number in (1, 2, 3)]
    new = finish_run(lake, 1, state="changed", manifest="other")
    chain = read_chain(lake)
    assert (new.replaces, chain.run_of(day(1))) == (old.run_id, new)
    assert [entry.day for entry in chain.stale()] == [day(2)]
    finish_run(lake, 2, state="changed, too")
    assert [entry.day for entry in read_chain(lake).stale()] == [day(3)]
    finish_run(lake, 3, state="s3")
    assert read_chain(lake).stale() == ()
    assert read_chain(lake).run_of(day(3)) != third


def test_a_backfill_that_ends_in_the_same_state_outdates_nothing(lake: FileStore) -> None:
    for number in (1, 2, 3):
        finish_run(lake, number, state=f"s{number}")
    finish_run(lake, 1, state="s1", manifest="other")
    assert read_chain(lake).stale() == ()


def test_the_run_that_holds_a_state_can_be_found(lake: FileStore) -> None:
    entry = finish_run(lake, 1, state="s1")
    assert read_chain(lake).run_with_state("s1") == entry
    assert read_chain(lake).run_with_state("unknown") is None


def test_a_run_before_final_ones_does_not_simply_run(lake: FileStore) -> None:
    finish_run(lake, 3, state="s3")
    chain = read_chain(lake)
    chain.check_turn(day(3))
    chain.check_turn(day(4))
    with pytest.raises(OutOfTurn, match="From sources with 'dates', onceover backfill --from"):
        chain.check_turn(day(2))


def test_a_missing_entry_is_noticed(lake: FileStore) -> None:
    for number in (1, 2, 3):
        finish_run(lake, number, state=f"s{number}")
    lake.delete(chain_key(2))
    with pytest.raises(BrokenChain, match="entry 2 is missing"):
        read_chain(lake)


def test_a_rewritten_entry_is_noticed(lake: FileStore) -> None:
    for number in (1, 2):
        finish_run(lake, number, state=f"s{number}")
    lake.put(chain_key(1), lake.read(chain_key(1)).replace(b'"s1"', b'"sX"'))
    with pytest.raises(BrokenChain, match="entry 2 does not follow from the one before"):
        read_chain(lake)


def test_more_entries_than_ten_keep_their_order(lake: FileStore) -> None:
    entries = tuple(finish_run(lake, number, state=f"s{number}") for number in range(1, 13))
    assert read_chain(lake).entries == entries


def _finish(lake: ObjectStore, chain: Chain, inputs: RunInputs) -> ChainEntry:
    return make_final(lake, chain, inputs, state_out="s", last_step=Step.ADMIT, outputs="o")
