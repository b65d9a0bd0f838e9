"""Great Expectations takes seconds to import: once, and only where a test needs it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

from expectations.facts import Facts
from expectations.finding import Judgement
from spark_jobs.config.audit import AuditSettings

Judge = Callable[..., Judgement]


CONTACT = {"socket.connect", "socket.getaddrinfo", "socket.sendto"}


class Contacts:
    """Everybody whom this process turned to while it was watched."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._watching = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._watching and event in CONTACT:
            self.found.append(f"{event} {arguments}")

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._watching = True
        try:
            yield
        finally:
            self._watching = False


@pytest.fixture(scope="session")
def contacts() -> Contacts:
    return Contacts()


@pytest.fixture(scope="session")
def judged(contacts: Contacts) -> Judge:
    """What the audit says of some facts, under some settings."""
    with contacts.watched():
        judge = import_module("expectations.judge").judge

    def judge_facts(facts: Facts, **settings: Any) -> Judgement:
        with contacts.watched():
            found: Judgement = judge(
                facts,
                AuditSettings.model_validate(settings),
                run_id="2024-05-01-ab",
                run_time="2024-05-02T00:00:00+00:00",
            )
        return found

    return judge_facts
