"""What passes the gate."""

from dataclasses import replace

import pytest

from expectations.gate import AuditFailed, JudgedExpectation, check, failed
from spark_jobs.config.audit import ExpectationName, Severity

GOOD = JudgedExpectation(
    suite="records",
    expectation=ExpectationName.RECORD_OFFSETS_INCREASE,
    severity=Severity.CRITICAL,
    sentence="No record is there twice.",
    success=True,
    observed="0 of 2 wrong",
    expected="disordered_rows ≤ 0",
)
BAD = replace(GOOD, success=False, observed="1 of 2 wrong", examples=("topic orders, partition 1",))
WARNING = replace(BAD, severity=Severity.WARNING)


def test_successes_and_warnings_pass() -> None:
    check([GOOD, WARNING])


def test_a_failed_critical_expectation_does_not_and_the_message_says_which_and_where() -> None:
    with pytest.raises(AuditFailed) as caught:
        check([GOOD, WARNING, BAD])
    assert "1 critical expectation failed, nothing is published" in str(caught.value)
    assert "records/record_offsets_increase (1 of 2 wrong): topic orders, partition 1" in str(caught.value)
    assert "No record is there twice." in str(caught.value)
    assert not caught.value.transient


def test_failures_are_reported_apart_by_severity() -> None:
    assert failed([GOOD, WARNING, BAD], Severity.WARNING) == (WARNING,)
