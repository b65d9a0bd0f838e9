"""The audit's settings: every expectation can be named, and nothing else."""

import pytest

from spark_jobs.config.audit import AuditSettings, ExpectationName, Severities, Severity
from spark_jobs.config.load import InvalidConfig
from tests.config.test_load import SMALLEST, parse


def test_every_expectation_has_a_severity_and_a_sentence() -> None:
    assert list(Severities.model_fields) == [each.value for each in ExpectationName]
    for each in ExpectationName:
        assert AuditSettings().severity(each) is each.default_severity is not Severity.OFF
        assert each.sentence.endswith(".")


def test_a_severity_is_set_by_name_and_the_others_stay() -> None:
    audit = parse(f"{SMALLEST}audit: {{severities: {{volume_is_as_usual: critical}}}}").audit
    assert audit.severity(ExpectationName.VOLUME_IS_AS_USUAL) is Severity.CRITICAL
    assert audit.severity(ExpectationName.CORRUPT_IS_AS_USUAL) is Severity.WARNING
    assert audit.severity(ExpectationName.STATE_CHAIN_IS_UNBROKEN) is Severity.CRITICAL


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("severities: {volume_as_usual: critical}", "did you mean 'volume_is_as_usual'?"),
        ("severities: {volume_is_as_usual: fatal}", "allowed: 'critical', 'warning' or 'off'"),
        ("volume_factor: 1", "audit.volume_factor: found 1"),
        ("keys_elsewhere: 2", "audit.keys_elsewhere: found 2"),
        ("history_runs: 0", "audit.history_runs: found 0"),
        ("earliest_timestamp: soon", "audit.earliest_timestamp: found 'soon'"),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=r"audit") as caught:
        parse(f"{SMALLEST}audit: {{{text}}}")
    assert message in str(caught.value)


def test_timestamps_count_from_midnight_utc() -> None:
    assert AuditSettings().earliest_ms == 946_684_800_000
