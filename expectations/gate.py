"""The gate before `publish`: nothing passes while a critical expectation fails."""

from collections.abc import Iterable

from expectations.finding import Finding
from spark_jobs.config.audit import Severity
from spark_jobs.protocol.errors import OnceoverError


class AuditFailed(OnceoverError):
    """A night that must not be published; the message names every critical expectation that failed."""


def failed(findings: Iterable[Finding], severity: Severity) -> tuple[Finding, ...]:
    """The failures that are taken that way."""
    return tuple(each for each in findings if not each.success and each.severity is severity)


def check(findings: Iterable[Finding]) -> None:
    """Raises `AuditFailed` if something blocks publishing; warnings do not."""
    blocking = failed(findings, Severity.CRITICAL)
    if blocking:
        told = "\n".join(f"- {each}\n  expected: {each.sentence}" for each in blocking)
        count = f"{len(blocking)} critical expectation{'s' if len(blocking) > 1 else ''}"
        raise AuditFailed(f"{count} failed, nothing is published:\n{told}")
