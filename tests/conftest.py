"""What all tests share: one Spark for those that need it; no example of Hypothesis is judged by the clock.

A change is judged by the same examples everywhere; with ONCEOVER_EXPLORE=1 they are others each time.
"""

import os
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings
from pyspark import SparkContext

from spark_jobs.execution.spark import Spark
from tests.chromium import browser, chromium
from tests.contacts import Contacts
from tests.in_process import InProcess
from tests.s3_server import s3_server
from tests.sharing import GroupsAndFiles, name_groups, put_in_turn

# Here alone: each place that names a fixture would start one of its own.
__all__ = ["browser", "chromium", "s3_server"]

settings.register_profile(
    "onceover",
    deadline=None,  # kernels compile on first use
    derandomize=not os.environ.get("ONCEOVER_EXPLORE"),
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no fault of the test
)
settings.load_profile("onceover")


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    """The one session of this process; nothing starts before a test runs a task."""
    # A busy machine may need more than the 15 s in which a result has to be fetched.
    completion_wait = {"spark.python.authenticate.socketTimeout": "600s"}
    shared = Spark("local[2]", {"spark.driver.memory": "1g", **completion_wait})
    yield shared
    shared.stop()


@pytest.fixture(autouse=True)
def one_spark_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command of the CLI that runs in a process with a session already gets none of its own."""
    if SparkContext._active_spark_context is not None:
        monkeypatch.setattr("spark_jobs.execution.spark.spark_for", lambda _: InProcess())


@pytest.fixture(scope="session")
def contacts() -> Contacts:
    """Listens to whom this process turns."""
    return Contacts()


@pytest.fixture(scope="session")
def great_expectations(contacts: Contacts) -> ModuleType:
    """What judges by that library, which takes seconds to import: once, and only where a test needs it."""
    with contacts.watched():
        return import_module("expectations.judge")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes share the tests, they must agree on groups and order."""
    put_in_turn(items)
    if hasattr(config, "workerinput"):
        name_groups(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupsAndFiles:
    """Who shares them out."""
    config.option.loadscopereorder = False
    return GroupsAndFiles(config, log)
