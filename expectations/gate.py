"""The gate before `publish`: nothing passes while a critical expectation fails."""

from collections.abc import Iterable

from expectations.finding import Finding
from spark_jobs.config.audit import ExpectationName, Severity
from spark_jobs.protocol.errors import OnceoverError

CONTAINED = frozenset({ExpectationName.NO_OFFSETS_ARE_MISSING})
"""Expectations whose failure is dealt with already: the partition is held behind its gap."""


class AuditFailed(OnceoverError):
    """The run must not be published; the message names every critical expectation that failed."""


def failed(findings: Iterable[Finding], severity: Severity) -> tuple[Finding, ...]:
    """The failures of that severity; what was not evaluated has not failed."""
    return tuple(each for each in findings if each.success is False and each.severity is severity)


def contained(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Critical failures that do not block the run: the affected partitions are held, all others are
    published.
    """
    return tuple(each for each in failed(findings, Severity.CRITICAL) if each.expectation in CONTAINED)


def check(findings: Iterable[Finding]) -> None:
    """Raises `AuditFailed` if something blocks publishing; warnings do not."""
    blocking = [each for each in failed(findings, Severity.CRITICAL) if each.expectation not in CONTAINED]
    if blocking:
        reported = "\n".join(f"- {each}\n  expected: {each.sentence}" for each in blocking)
        count = f"{len(blocking)} critical expectation{'s' if len(blocking) > 1 else ''}"
        raise AuditFailed(f"{count} failed, nothing is published:\n{reported}")
