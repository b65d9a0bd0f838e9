"""The findings of the audit on given numbers."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from expectations.gate import Facts, Judgement
from spark_jobs.config.audit import AuditSettings
from tests.contacts import Contacts

Judge = Callable[..., Judgement]


@pytest.fixture(scope="session")
def judged(contacts: Contacts, great_expectations: ModuleType) -> Judge:
    """The findings of the audit on given facts and settings."""

    def judge_facts(facts: Facts, **settings: Any) -> Judgement:
        with contacts.watched():
            found: Judgement = great_expectations.judge(
                facts,
                AuditSettings.model_validate(settings),
                run_id="2024-05-01-ab",
                run_time="2024-05-02T00:00:00+00:00",
            )
        return found

    return judge_facts
