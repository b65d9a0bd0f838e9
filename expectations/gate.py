"""The gate before `publish`: suites and their facts, the findings of an audit, and which block publishing."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_jobs.config.audit import AuditSettings, ExpectationName, Severity
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.tables.audit import ANSWER_FACTS

if TYPE_CHECKING:  # the library loads slowly, and `audit` needs the facts before it
    from great_expectations.expectations import Expectation


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Tables `source_facts`, `partition_facts` and `transaction_facts`, and `topic_volumes` of the run.

    `history` are the `topic_volumes` of earlier runs, `answers` is `answer_facts`, `ids` the table `id_facts`
    of a run with the step `deduplicate`. All are small, for a run of any size.
    """

    sources: pa.Table
    partitions: pa.Table
    transactions: pa.Table
    volumes: pa.Table
    history: tuple[pa.Table, ...] = ()
    answers: pa.Table = field(default_factory=ANSWER_FACTS.schema.empty_table)
    ids: pa.Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """`about` are the columns of the frame that name a row; `shown` are more to show of a failing one.

    A suite is evaluated if it `applies` to the run.
    """

    name: str
    about: tuple[str, ...]
    frame: Callable[[Facts, AuditSettings], pa.Table]
    expectations: "Callable[[AuditSettings], tuple[Expectation, ...]]"
    shown: tuple[str, ...] = ()
    applies: Callable[[Facts], bool] = lambda _: True


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedExpectation:
    """One expectation, judged; `observed`, `expected` and `examples` are texts for people.

    `success` is None where the expectation is off: then it was not evaluated.
    """

    suite: str
    expectation: ExpectationName
    severity: Severity
    sentence: str
    success: bool | None
    observed: str
    expected: str
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        places = f": {'; '.join(self.examples)}" if self.examples else ""
        return f"{self.suite}/{self.expectation} ({self.observed}){places}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A whole audit: the findings in the order of the suites, and Data Docs by their file's name."""

    findings: tuple[JudgedExpectation, ...]
    pages: dict[str, str]


CONTAINED = frozenset({ExpectationName.NO_OFFSETS_ARE_MISSING})
"""Expectations whose failure needs no stop: the partition is already held behind its gap."""


class AuditFailed(OnceoverError):
    """The run must not be published; the message names every critical expectation that failed."""


def failed(findings: Iterable[JudgedExpectation], severity: Severity) -> tuple[JudgedExpectation, ...]:
    """The failures of that severity; what was not evaluated has not failed."""
    return tuple(each for each in findings if each.success is False and each.severity is severity)


def contained(findings: Iterable[JudgedExpectation]) -> tuple[JudgedExpectation, ...]:
    """Critical failures that do not block the run: their partitions are held, all others are published."""
    return tuple(each for each in failed(findings, Severity.CRITICAL) if each.expectation in CONTAINED)


def check(findings: Iterable[JudgedExpectation]) -> None:
    """Raises `AuditFailed` if something blocks publishing; warnings do not."""
    blocking = [each for each in failed(findings, Severity.CRITICAL) if each.expectation not in CONTAINED]
    if blocking:
        reported = "\n".join(f"- {each}\n  expected: {each.sentence}" for each in blocking)
        count = f"{len(blocking)} critical expectation{'s' if len(blocking) > 1 else ''}"
        raise AuditFailed(f"{count} failed, nothing is published:\n{reported}")
