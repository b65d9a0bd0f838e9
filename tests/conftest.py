"""What all tests share: one Spark for those that need it; no example of Hypothesis is judged by the clock."""

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest
from hypothesis import settings

from spark_jobs.spark_session import Spark
from tests.contacts import Contacts

settings.register_profile("onceover", deadline=None)  # kernels compile on first use
settings.load_profile("onceover")

SLOW_TO_START = {"spark", "great_expectations"}
"""Fixtures that take seconds, once per process."""
BROWSER = "browser"
"""A fixture that takes seconds as well, with the lakes that it looks at."""


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    """The one session of this process; nothing starts before a test runs a task."""
    shared = Spark("local[2]", {"spark.driver.memory": "1g"})
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def contacts() -> Contacts:
    """Listens to whom this process turns."""
    return Contacts()


@pytest.fixture(scope="session")
def great_expectations(contacts: Contacts) -> ModuleType:
    """What judges by that library, which takes seconds to import: once, and only where a test needs it."""
    with contacts.watched():
        return import_module("expectations.judge")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the tests, one gets all that need what is slow to start.

    One gets all that need a browser, and files stay together.
    """
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    fixtures = getattr(item, "fixturenames", ())
    if not SLOW_TO_START.isdisjoint(fixtures):
        return "slow"
    return BROWSER if BROWSER in fixtures else item.nodeid.partition("::")[0]
