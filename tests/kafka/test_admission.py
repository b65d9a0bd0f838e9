"""The accept/reject rules against facts §2.4-2.9 and the admission rows of facts §9."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.producers.admission import append_batch, check_sequence, fold, merge, prepare
from spark_jobs.kafka.producers.producer_state import CompletedTxn, ProducerStates, TxnMetadata
from spark_jobs.kafka.producers.verdict import BatchRow, Decision, Rules, Verdict
from tests.cases.admission import CASES, REPLICATION, AdmissionCase, Expected, Remembered
from tests.cases.batch_rows import T0, abort, commit, data
from tests.kafka.admission_strategies import ANY_RULES, ROWS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_case(case: AdmissionCase) -> None:
    states = ProducerStates(end_offset=case.start_offset)
    for step in case.steps:
        (decision,), states = fold(states, [step.row], rules=step.rules)
        check(decision, step.expected)
    for expected in case.remembered:
        assert remembered(states, expected) == expected


def check(decision: Decision, expected: Expected) -> None:
    assert decision.verdict is expected.verdict
    assert decision.kafka_error is expected.verdict.kafka_error
    for field in ("base_offset", "expected_sequence", "expected_epoch", "txn_first_offset"):
        wanted = getattr(expected, field)
        assert wanted is None or getattr(decision, field) == wanted, field


def remembered(states: ProducerStates, like: Remembered) -> Remembered:
    entry = states.producers[like.producer_id]
    return Remembered(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        first_sequence=entry.first_sequence,
        last_sequence=entry.last_sequence,
        current_txn_first_offset=entry.current_txn_first_offset,
        coordinator_epoch=None if like.coordinator_epoch is None else entry.coordinator_epoch,
    )


def test_case_titles_are_unique() -> None:
    titles = [case.title for case in CASES]
    assert len(titles) == len(set(titles))


def test_row_002_the_same_sequence_again_is_out_of_order_once_duplicates_are_ruled_out() -> None:
    _, states = fold(ProducerStates(), [data(seq=0), data(seq=1)], rules=Rules())
    info = prepare(states.producers[1], 1)
    assert check_sequence(info, data(seq=1).header) == 2
    assert check_sequence(info, data(seq=2).header) is None


def test_row_019_a_commit_completes_from_the_first_batch_to_the_marker_and_keeps_the_window() -> None:
    info = prepare(None, 1)
    first = append_batch(info, data(seq=0, count=5, txn=True).header, offset=16, rules=REPLICATION)
    assert first.started == TxnMetadata(producer_id=1, first_offset=16)
    assert first.info is not None
    second = append_batch(first.info, data(seq=5, count=5, txn=True).header, offset=26, rules=REPLICATION)
    assert second.started is None
    assert second.info is not None
    marker = commit(coord=3)
    end = append_batch(second.info, marker.header, offset=40, rules=REPLICATION, marker=marker.marker)
    assert end.completed == CompletedTxn(producer_id=1, first_offset=16, last_offset=40, is_aborted=False)
    assert end.info is not None
    assert merge(end.info).batches == merge(second.info).batches
    assert merge(end.info).current_txn_first_offset is None


def test_a_duplicate_carries_the_remembered_timestamp_and_offsets() -> None:
    rows = [data(seq=0, count=3, ts=T0 + 5), data(seq=3), data(seq=0, count=3, ts=T0 + 99)]
    decisions, _ = fold(ProducerStates(end_offset=10), rows, rules=Rules())
    assert decisions[2] == Decision(
        verdict=Verdict.DUPLICATE,
        base_offset=10,
        last_offset=12,
        expected_sequence=4,
        found_sequence=0,
        expected_epoch=0,
        found_epoch=0,
        log_append_time=T0 + 5,
    )


def test_within_one_append_sequences_follow_the_batches_before_them() -> None:
    info = prepare(None, 1)
    first = append_batch(info, data(seq=7).header, offset=0, rules=REPLICATION)
    assert first.info is not None
    assert check_sequence(first.info, data(seq=8).header) is None
    assert check_sequence(first.info, data(seq=9).header) is None, "nothing stored: any sequence is welcome"
    known = replace(first.info, stored=merge(first.info))
    assert check_sequence(known, data(seq=9).header) == 8


def test_an_epoch_that_falls_back_within_one_append_keeps_the_stored_window() -> None:
    """The broker compares only the append's last epoch with the stored one (facts §2.8)."""
    _, states = fold(ProducerStates(), [data(seq=0), data(seq=1)], rules=Rules())
    info = prepare(states.producers[1], 1)
    for row in (data(epoch=4, seq=0), data(epoch=0, seq=2)):
        admission = append_batch(info, row.header, offset=2, rules=REPLICATION)
        assert admission.info is not None
        info = admission.info
    assert [batch.first_sequence for batch in merge(info).batches] == [0, 1, 2]


def test_a_marker_of_another_epoch_drops_the_batches_of_its_own_append_too() -> None:
    """A segment is replayed as one append, so data and its TV2 marker meet there (facts §2.8, §2.12)."""
    info, marker = prepare(None, 1), commit(epoch=1)
    for row in (data(seq=0, txn=True), marker):
        admission = append_batch(info, row.header, offset=0, rules=REPLICATION, marker=row.marker)
        assert admission.info is not None
        info = admission.info
    assert (merge(info).producer_epoch, merge(info).batches) == (1, ())


def test_a_control_batch_of_another_type_has_no_business_with_a_producer() -> None:
    foreign = BatchRow(header=abort().header)
    (decision,), states = fold(ProducerStates(), [foreign], rules=REPLICATION)
    assert (decision.verdict, decision.kafka_error) == (Verdict.INVALID_RECORD, KafkaError.INVALID_RECORD)
    assert not states.producers


@given(st.lists(ROWS, max_size=12), ANY_RULES)
def test_fold_does_not_change_its_input(rows: list[BatchRow], rules: Rules) -> None:
    _, states = fold(ProducerStates(), rows[:6], rules=rules)
    before = (dict(states.producers), states.end_offset, list(rows))
    fold(states, rows[6:], rules=rules)
    assert (states.producers, states.end_offset, rows) == before


@given(st.lists(ROWS, max_size=16), st.integers(0, 16), ANY_RULES)
def test_a_fold_split_anywhere_is_the_fold_of_the_whole(rows: list[BatchRow], cut: int, rules: Rules) -> None:
    whole, end = fold(ProducerStates(end_offset=5), rows, rules=rules)
    first, between = fold(ProducerStates(end_offset=5), rows[:cut], rules=rules)
    second, split_end = fold(between, rows[cut:], rules=rules)
    assert (first + second, split_end) == (whole, end)


@given(st.lists(ROWS, max_size=16), ANY_RULES)
def test_every_batch_gets_one_decision_and_accepted_offsets_have_no_gaps(
    rows: list[BatchRow], rules: Rules
) -> None:
    decisions, states = fold(ProducerStates(), rows, rules=rules)
    assert len(decisions) == len(rows)
    accepted = [d for d in decisions if d.verdict is Verdict.ACCEPTED]
    if rules.origin is not REPLICATION.origin:
        ends = [d.last_offset + 1 for d in accepted]
        assert [d.base_offset for d in accepted] == [0, *ends[:-1]][: len(accepted)]
        assert states.end_offset == (ends[-1] if ends else 0)


@given(st.lists(ROWS, max_size=16), ANY_RULES)
def test_refused_batches_and_duplicates_leave_the_state_alone(rows: list[BatchRow], rules: Rules) -> None:
    states = ProducerStates()
    for row in rows:
        (decision,), after = fold(states, [row], rules=rules)
        if decision.verdict is not Verdict.ACCEPTED:
            assert after == states
        states = after
