"""Every verdict's definition is complete, so that a new one is shown everywhere."""

from string import Formatter

import pytest

from spark_jobs.kafka.producers.verdict import Verdict, VerdictGroup
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.pipeline.admit.partition import VALUES
from spark_jobs.pipeline.report.step import labels


@pytest.mark.parametrize("verdict", Verdict)
def test_a_reason_names_only_values_that_a_batch_has(verdict: Verdict) -> None:
    names = {name for _, name, _, _ in Formatter().parse(verdict.reason) if name is not None}
    assert names <= set(VALUES)
    assert bool(names) == (verdict is not Verdict.ACCEPTED)


def test_a_held_batch_is_not_refused() -> None:
    assert [verdict for verdict in Verdict if verdict.is_refused and verdict.group is VerdictGroup.HELD] == []
    assert Verdict.PARKED.value not in labels()["refused"]
    assert {Verdict.FENCED.value, Verdict.CORRUPT.value} <= set(labels()["refused"])


def test_what_can_be_held_in_quarantine_says_what_it_waits_for() -> None:
    held = {verdict for verdict in Verdict if verdict.waits_for}
    assert held == {Verdict.ACCEPTED, Verdict.PARKED}
    assert {verdict.group for verdict in held} == {VerdictGroup.ACCEPTED, VerdictGroup.HELD}


@pytest.mark.parametrize("kind", [Verdict, Outcome])
def test_labels_can_be_distinguished_without_colour(kind: type[Verdict | Outcome]) -> None:
    assert len({each.symbol for each in kind}) == len(kind)
    assert all(each.meaning.endswith(".") and each.meaning[0].isupper() for each in kind)
