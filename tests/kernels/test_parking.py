"""Parked batches: cases by hand, and the kernel against its pure twin."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import find, given
from hypothesis import strategies as st

from spark_jobs.kafka.producers import admission
from spark_jobs.kafka.producers.parking import Decided, ParkingFold, fold_with_parking
from spark_jobs.kafka.producers.producer_state import AppendOrigin, ProducerStates, TransactionVersion
from spark_jobs.kafka.producers.verdict import VERDICTS, BatchRow, Decision, Rules, Verdict
from spark_jobs.kernels.admission import fold
from spark_jobs.kernels.parking import PARKED, Freed, ParkedBatches
from spark_jobs.kernels.producers import ProducerTable, states_of, table_of
from tests.cases.batch_rows import commit, data
from tests.kafka.admission_strategies import ANY_RULES
from tests.kernels.histories import columns_of, histories
from tests.kernels.test_admission import decisions_of, starts

ACCEPTED, DUPLICATE, PARK = Verdict.ACCEPTED, Verdict.DUPLICATE, Verdict.PARKED
STALE, OUT_OF_ORDER, FENCED = Verdict.STALE_DUPLICATE, Verdict.OUT_OF_ORDER, Verdict.FENCED
MANY = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkingCase:
    """`expected` is (place of the batch, verdict) in the order of deciding."""

    title: str
    rows: tuple[BatchRow, ...]
    expected: tuple[tuple[int, Verdict], ...]
    parked: tuple[BatchRow, ...] = ()
    most: int = MANY


CASES = (
    ParkingCase(
        title="a gap that fills",
        rows=(data(seq=0), data(seq=2), data(seq=3), data(seq=1), data(seq=4)),
        expected=((0, ACCEPTED), (3, ACCEPTED), (1, ACCEPTED), (2, ACCEPTED), (4, ACCEPTED)),
    ),
    ParkingCase(
        title="a gap that stays",
        rows=(data(seq=0), data(seq=2), data(seq=3)),
        expected=((0, ACCEPTED), (1, PARK), (2, PARK)),
    ),
    ParkingCase(
        title="a gap that fills on another run",
        parked=(data(seq=0), data(seq=2)),
        rows=(data(seq=1),),
        expected=((0, ACCEPTED), (2, ACCEPTED), (1, ACCEPTED)),
    ),
    ParkingCase(
        title="two gateways, one after the other",
        rows=(data(seq=1), data(seq=3), data(seq=5), data(seq=0), data(seq=2), data(seq=4)),
        expected=((3, ACCEPTED), (0, ACCEPTED), (4, ACCEPTED), (1, ACCEPTED), (5, ACCEPTED), (2, ACCEPTED)),
    ),
    ParkingCase(
        title="an unknown producer that never sends sequence 0 begins at its lowest when the run ends",
        rows=(data(seq=8), data(seq=7), data(seq=10)),
        expected=((1, ACCEPTED), (0, ACCEPTED), (2, PARK)),
    ),
    ParkingCase(
        title="the same batch is parked twice",
        rows=(data(seq=0), data(seq=2), data(seq=2), data(seq=1)),
        expected=((0, ACCEPTED), (3, ACCEPTED), (1, ACCEPTED), (2, DUPLICATE)),
    ),
    ParkingCase(
        title="a batch that overlaps accepted ones is not parked",
        rows=(data(seq=0, count=3), data(seq=2, count=4), data(seq=0)),
        expected=((0, ACCEPTED), (1, OUT_OF_ORDER), (2, STALE)),
    ),
    ParkingCase(
        title="a batch that a newer epoch fences while it is parked",
        rows=(data(seq=0), data(seq=2), data(epoch=1, seq=0)),
        expected=((0, ACCEPTED), (2, ACCEPTED), (1, FENCED)),
    ),
    ParkingCase(
        title="a newer epoch is parked until its first batch",
        rows=(data(seq=0), data(epoch=1, seq=1), data(epoch=1, seq=0)),
        expected=((0, ACCEPTED), (2, ACCEPTED), (1, ACCEPTED)),
    ),
    ParkingCase(
        title="a parked batch whose sequences arrive in batches of another size",
        rows=(data(seq=0), data(seq=2), data(seq=1, count=3)),
        expected=((0, ACCEPTED), (2, ACCEPTED), (1, STALE)),
    ),
    ParkingCase(
        title="at the limit a gap is rejected",
        rows=(data(seq=0), data(seq=2), data(seq=4)),
        most=1,
        expected=((0, ACCEPTED), (2, OUT_OF_ORDER), (1, PARK)),
    ),
    ParkingCase(
        title="at the limit an unknown producer begins",
        rows=(data(seq=5), data(seq=6), data(seq=7)),
        most=1,
        expected=((0, ACCEPTED), (1, ACCEPTED), (2, ACCEPTED)),
    ),
    ParkingCase(
        title="markers and plain batches are never parked",
        rows=(commit(epoch=3), data(pid=-1, epoch=-1, seq=-1), data(epoch=3, seq=1)),
        expected=((0, ACCEPTED), (1, ACCEPTED), (2, PARK)),
    ),
)


def fold_with_kernel(
    states: ProducerStates,
    parked: Sequence[BatchRow],
    rows: Sequence[BatchRow],
    *,
    rules: Rules,
    most: int,
    never_parked: frozenset[int] = frozenset(),
    cuts: Sequence[int] = (),
) -> ParkingFold:
    """The kernel's run, in chunks, tidied after each."""
    every = [*parked, *rows]
    producers, room = table_of(states), ParkedBatches(columns_of(parked), rules=rules, most=most)
    places, judged = list(range(len(parked))), list[Decided]()
    for start, end in pairwise([0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]):
        first, part = len(parked) + start, rows[start:end]
        may_park = np.array(
            [first + number not in never_parked for number in range(len(part))], dtype=np.bool_
        )
        used = room.used
        decisions, freed = room.arrive(columns_of(part), may_park, producers)
        places += [first + int(number) for number in room.parked_since(used)]
        decided = decisions_of(decisions, part)
        judged += _at(freed, -1, places, every)
        for number, decision in enumerate(decided):
            if decisions.verdict[number] != PARKED:
                judged.append((first + number, decision))
            judged += _at(freed, number, places, every)
        places = [places[kept] for kept in room.tidy()]
    freed = room.end(producers)
    judged += _at(freed, -1, places, every)
    left, parked_decisions = room.stay(producers)
    judged += zip(
        (places[place] for place in left),
        decisions_of(parked_decisions, [every[places[place]] for place in left]),
        strict=True,
    )
    return ParkingFold(judged=tuple(judged), states=states_of(producers))


def _at(freed: Freed, number: int, places: list[int], every: list[BatchRow]) -> list[tuple[int, Decision]]:
    """The batches freed after that batch of the chunk."""
    found = [places[place] for place in freed.places]
    decisions = decisions_of(freed.decisions, [every[place] for place in found])
    everyone = zip(found, decisions, freed.after, strict=True)
    return [(place, decision) for place, decision, after in everyone if after == number]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_case(case: ParkingCase) -> None:
    states, rules = ProducerStates(), Rules()
    if case.parked:
        (first, *left) = case.parked
        states = fold_with_parking(states, (), [first], rules=rules, most=MANY).states
        found = fold_with_parking(states, left, case.rows, rules=rules, most=case.most)
        judged = ((0, ACCEPTED), *((place + 1, decision.verdict) for place, decision in found.judged))
    else:
        found = fold_with_parking(states, (), case.rows, rules=rules, most=case.most)
        judged = tuple((place, decision.verdict) for place, decision in found.judged)
    assert judged == case.expected


def test_unknown_producers_that_may_not_begin_late_are_refused_with_all_their_batches() -> None:
    """Under TV2 a transaction begins at sequence 0, so at the end of the run none of these can."""
    rows = [data(pid=pid, seq=seq, txn=True) for pid, seq in ((1, 8), (2, 5), (1, 4), (1, 4), (2, 6))]
    rules = Rules(transaction_version=TransactionVersion.TV2)
    pure = fold_with_parking(ProducerStates(), (), rows, rules=rules, most=MANY)
    assert [(place, decision.verdict) for place, decision in pure.judged] == [
        (place, OUT_OF_ORDER) for place in (2, 3, 0, 1, 4)
    ]
    assert fold_with_kernel(ProducerStates(), (), rows, rules=rules, most=MANY) == pure


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run, and the batches that an earlier one left parked."""

    states: ProducerStates
    parked: list[BatchRow]
    rows: list[BatchRow]
    rules: Rules
    most: int
    never_parked: frozenset[int]


@st.composite
def runs(draw: st.DrawFn) -> Run:
    rules = draw(ANY_RULES)
    earlier = draw(histories())
    states = draw(st.just(ProducerStates()) | starts())
    before = fold_with_parking(states, (), earlier, rules=rules, most=MANY)
    return Run(
        states=before.states,
        parked=[earlier[place] for place, decision in before.judged if decision.verdict is PARK],
        rows=draw(histories()),
        rules=rules,
        most=draw(st.sampled_from((0, 1, 3, MANY))),
        never_parked=draw(st.frozensets(st.integers(0, 60), max_size=5)),
    )


@given(runs(), st.lists(st.integers(0, 40), max_size=3))
def test_the_kernel_waits_as_its_pure_twin(run: Run, cuts: list[int]) -> None:
    conditions: dict[str, Any] = {"rules": run.rules, "most": run.most, "never_parked": run.never_parked}
    expected = fold_with_parking(run.states, run.parked, run.rows, **conditions)
    found = fold_with_kernel(run.states, run.parked, run.rows, **conditions, cuts=cuts)
    assert found == expected


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCase:
    """Two values of one field of `Rules`, and rows whose last verdict depends on it."""

    field: str
    values: tuple[Any, Any]
    rows: tuple[BatchRow, ...]
    expected: tuple[Verdict, Verdict]


TXN_STATE = Verdict.INVALID_TRANSACTION_STATE
RULE_CASES = (
    RuleCase(
        field="origin",
        values=(AppendOrigin.CLIENT, AppendOrigin.COORDINATOR),
        rows=(data(seq=0), data(seq=2)),
        expected=(OUT_OF_ORDER, ACCEPTED),
    ),
    RuleCase(
        field="transaction_version",
        values=(TransactionVersion.TV1, TransactionVersion.TV2),
        rows=(data(seq=5, txn=True),),
        expected=(ACCEPTED, OUT_OF_ORDER),
    ),
    RuleCase(
        field="enforce_open_transaction",
        values=(True, False),
        rows=(data(seq=0, txn=True), data(seq=1)),
        expected=(TXN_STATE, ACCEPTED),
    ),
    RuleCase(
        field="marker_version",
        values=(None, TransactionVersion.TV2),
        rows=(data(seq=0, txn=True), commit()),
        expected=(ACCEPTED, FENCED),
    ),
)


def test_every_field_of_the_rules_has_a_case_and_is_varied() -> None:
    names = [field.name for field in fields(Rules)]
    assert [case.field for case in RULE_CASES] == names
    for name in names:
        usual = getattr(Rules(), name)
        assert getattr(find(ANY_RULES, lambda rules: getattr(rules, name) != usual), name) != usual  # noqa: B023 - called at once


@pytest.mark.parametrize("case", RULE_CASES, ids=lambda case: case.field)
def test_every_field_of_the_rules_decides_in_both_twins_of_both_ways_in(case: RuleCase) -> None:
    never = frozenset(range(len(case.rows)))
    for value, expected in zip(case.values, case.expected, strict=True):
        rules = replace(Rules(), **{case.field: value})
        folded = fold(columns_of(case.rows), ProducerTable(), rules=rules)
        pure, _ = admission.fold(ProducerStates(), case.rows, rules=rules)
        assert VERDICTS[folded.verdict[-1]] is pure[-1].verdict is expected
        for way in (fold_with_parking, fold_with_kernel):
            run = way(ProducerStates(), (), case.rows, rules=rules, most=MANY, never_parked=never)
            assert run.judged[-1][1].verdict is expected


def test_a_room_grows_and_keeps_everyone() -> None:
    rows = [data(pid=number % 7, seq=1 + number // 7) for number in range(7000)]
    rows += [data(pid=number, seq=0) for number in range(7)]
    room, producers = ParkedBatches(columns_of([]), rules=Rules(), most=10**6), ProducerTable()
    decisions, freed = room.arrive(columns_of(rows), np.ones(len(rows), dtype=np.bool_), producers)
    assert (decisions.verdict[:7000] == PARKED).all()
    assert decisions.base_offset[7000:].tolist() == list(range(0, 7007, 1001))
    assert sorted(freed.places.tolist()) == list(range(7000))
    assert room.parked == 0
    assert producers.end_offset == len(rows)
