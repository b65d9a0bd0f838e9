from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.producers import admission
from spark_jobs.kafka.producers.producer_state import AppendOrigin, ProducerStates
from spark_jobs.kafka.producers.verdict import VERDICTS, BatchRow, Decision, Rules, Verdict
from spark_jobs.kernels.admission import DecisionColumns, fold
from spark_jobs.kernels.producers import ProducerTable, states_of, table_of
from tests.cases.admission import CASES, AdmissionCase
from tests.cases.batch_rows import commit, data
from tests.kafka.admission_strategies import ANY_RULES, ROWS
from tests.kafka.test_admission import check, remembered
from tests.kernels.histories import columns_of, histories

HISTORIES = histories() | histories(with_offsets=True) | st.lists(ROWS, max_size=16)


def decisions_of(columns: DecisionColumns, rows: Sequence[BatchRow]) -> tuple[Decision, ...]:
    """The kernel's columns as the values of the pure twin; what was found is in the rows themselves."""
    return tuple(_decision(columns, index, row) for index, row in enumerate(rows))


def _decision(columns: DecisionColumns, index: int, row: BatchRow) -> Decision:
    verdict = VERDICTS[columns.verdict[index]]
    is_client_data = verdict is Verdict.INVALID_RECORD and not row.header.is_control
    return Decision(
        verdict=verdict,
        kafka_error=verdict.kafka_error,
        base_offset=int(columns.base_offset[index]),
        last_offset=int(columns.last_offset[index]),
        expected_sequence=int(columns.expected_sequence[index]),
        found_sequence=row.header.base_sequence,
        expected_epoch=int(columns.expected_epoch[index]),
        found_epoch=row.header.producer_epoch,
        log_append_time=int(columns.log_append_time[index]),
        txn_first_offset=int(columns.txn_first_offset[index]),
        message=admission.check_client_header(row.header) if is_client_data else None,
    )


@st.composite
def starts(draw: st.DrawFn) -> ProducerStates:
    """States that some earlier history left behind."""
    earlier = draw(histories(with_offsets=True))
    rules = Rules(origin=AppendOrigin.REPLICATION, enforce_open_transaction=False)
    return admission.fold(ProducerStates(), earlier, rules=rules)[1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_case(case: AdmissionCase) -> None:
    table = ProducerTable(end_offset=case.start_offset)
    for step in case.steps:
        (decision,) = decisions_of(fold(columns_of([step.row]), table, rules=step.rules), [step.row])
        check(decision, step.expected)
    for expected in case.remembered:
        assert remembered(states_of(table), expected) == expected


@given(st.just(ProducerStates()) | starts(), HISTORIES, ANY_RULES)
def test_a_fold_decides_and_remembers_as_the_pure_fold(
    states: ProducerStates, rows: list[BatchRow], rules: Rules
) -> None:
    expected, expected_states = admission.fold(states, rows, rules=rules)
    table = table_of(states)
    found = fold(columns_of(rows), table, rules=rules)
    assert decisions_of(found, rows) == expected
    assert states_of(table) == expected_states


@given(histories(), ANY_RULES, st.lists(st.integers(0, 40), max_size=4))
def test_chunks_of_a_partition_leave_the_same_decisions_and_bytes_as_the_whole(
    rows: list[BatchRow], rules: Rules, cuts: list[int]
) -> None:
    whole, in_chunks = ProducerTable(), ProducerTable()
    expected = decisions_of(fold(columns_of(rows), whole, rules=rules), rows)
    found: list[Decision] = []
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for start, end in pairwise(edges):
        part = rows[start:end]
        found += decisions_of(fold(columns_of(part), in_chunks, rules=rules), part)
    assert tuple(found) == expected
    assert in_chunks.canonical().tobytes() == whole.canonical().tobytes()
    assert in_chunks.end_offset == whole.end_offset


@given(histories(), ANY_RULES, st.integers(0, 3))
def test_verdicts_on_a_producer_do_not_depend_on_the_batches_of_others(
    rows: list[BatchRow], rules: Rules, number: int
) -> None:
    producers = sorted({row.header.producer_id for row in rows})
    own = producers[min(number, len(producers) - 1)] if producers else 0
    alone = [row for row in rows if row.header.producer_id == own]
    together = fold(columns_of(rows), ProducerTable(), rules=rules).verdict.tolist()
    expected = [verdict for verdict, row in zip(together, rows, strict=True) if row.header.producer_id == own]
    assert fold(columns_of(alone), ProducerTable(), rules=rules).verdict.tolist() == expected


@given(starts())
def test_entries_survive_the_way_into_a_table_and_back(states: ProducerStates) -> None:
    assert states_of(table_of(states)) == states


def test_a_table_grows_with_its_producers_and_loses_none() -> None:
    producer_ids = [(number * 2_654_435_761) % 2**40 for number in range(10_000)]
    rows = [data(pid=producer_id) for producer_id in producer_ids]
    table = ProducerTable()
    first = fold(columns_of(rows), table, rules=Rules())
    again = fold(columns_of(rows), table, rules=Rules())
    assert table.count == len(producer_ids)
    assert {VERDICTS[code] for code in first.verdict} == {Verdict.ACCEPTED}
    assert {VERDICTS[code] for code in again.verdict} == {Verdict.DUPLICATE}
    assert again.base_offset.tolist() == first.base_offset.tolist() == list(range(10_000))


def test_a_refused_unknown_producer_is_not_remembered() -> None:
    rows = [data(at=1)]
    table = ProducerTable()
    decisions = fold(columns_of(rows), table, rules=Rules())
    assert VERDICTS[decisions.verdict[0]] is Verdict.INVALID_RECORD
    assert table.count == 0


def test_an_accepted_marker_names_the_transaction_that_it_completes() -> None:
    rows = [data(seq=0, txn=True), data(seq=1, txn=True), commit(), commit()]
    decisions = fold(columns_of(rows), ProducerTable(end_offset=100), rules=Rules())
    assert decisions.txn_first_offset.tolist() == [100, 100, 100, -1]
    assert decisions.base_offset.tolist() == [100, 101, 102, 103]
