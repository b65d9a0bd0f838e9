"""Each invariant finds its violations."""

from typing import Any

from tests.broker import invariants
from tests.broker.clients.journal import Entry, Outcome, copy_of

DAY = "2024-05-01"


def row(
    offset: int, value: bytes, *, sequence: int = 0, topic: str = "pay", epoch: int = 0
) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "timestamp": 1,
        "key": None,
        "value": value,
        "headers": [],
        "producer_id": 1,
        "producer_epoch": epoch,
        "sequence": sequence,
    }


def entry(outcome: Outcome, *values: bytes) -> Entry:
    return Entry(name="t", values=tuple(("pay", 0, value) for value in values), outcome=outcome)


def test_an_aborted_record_that_is_published_is_found() -> None:
    assert len(list(invariants.aborted_reads([row(0, b"a")], [entry(Outcome.ABORTED, b"a", b"b")]))) == 1
    assert not list(invariants.aborted_reads([row(0, b"a")], [entry(Outcome.UNKNOWN, b"a")]))


def test_a_committed_record_that_is_missing_is_found_unless_it_is_hidden() -> None:
    journal = [entry(Outcome.COMMITTED, b"a", b"b")]
    assert len(list(invariants.lost_writes([row(0, b"a")], journal, set()))) == 1
    assert not list(invariants.lost_writes([row(0, b"a")], journal, {("pay", 0, b"b")}))


def test_values_and_offsets_that_come_twice_are_found() -> None:
    assert len(list(invariants.duplicates([row(0, b"a"), row(1, b"a")]))) == 1
    assert len(list(invariants.duplicates([row(0, b"a"), row(0, b"b")]))) == 1


def test_half_a_transaction_is_found_whatever_response_its_client_got() -> None:
    for outcome in Outcome:
        assert len(list(invariants.torn_transactions([row(0, b"a")], [entry(outcome, b"a", b"b")]))) == 1
    assert not list(invariants.torn_transactions([row(0, b"a")], [entry(Outcome.UNKNOWN, b"a")]))


def test_sequences_that_go_back_are_found_within_an_epoch() -> None:
    assert len(list(invariants.misordered([row(0, b"a", sequence=5), row(1, b"b", sequence=5)]))) == 1
    assert not list(invariants.misordered([row(0, b"a", sequence=5), row(1, b"b", epoch=1)]))
    assert not list(invariants.misordered([row(0, b"a", sequence=2**31 - 1), row(1, b"b")]))


def test_batches_without_or_with_two_verdicts_are_found() -> None:
    place = {"run_date": DAY, "topic": "pay", "partition": 0, "copy": 0, "object_order": 0, "position": 0}
    assert not list(invariants.unaccounted_batches([place], {"batches": 1}))
    assert len(list(invariants.unaccounted_batches([place], {"batches": 2}))) == 1
    assert len(list(invariants.unaccounted_batches([place, place], {"batches": 2}))) == 1


def test_files_and_tables_that_differ_are_found() -> None:
    assert list(invariants.differing_outputs({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})) == [
        "b",
        "c",
    ]
    assert len(list(invariants.differing_tables([row(0, b"a")], [row(0, b"b")]))) == 2


def test_inputs_copied_twice_and_copies_of_nothing_are_found() -> None:
    once, twice = row(0, copy_of(b"a", "c.1"), topic="out"), row(1, copy_of(b"a", "c.2"), topic="out")
    assert not list(invariants.miscopied([row(0, b"a"), once]))
    assert len(list(invariants.miscopied([row(0, b"a"), once, twice]))) == 1
    assert len(list(invariants.miscopied([once]))) == 1
