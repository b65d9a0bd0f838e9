"""What an expectation came to: a row of `expectation_results`."""

from dataclasses import dataclass

from spark_jobs.config.audit import ExpectationName, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
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

    findings: tuple[Finding, ...]
    pages: dict[str, str]
