"""What all tests share: one Spark for those that need it; no example of Hypothesis is judged by the clock."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from spark_jobs.spark_session import Spark

settings.register_profile("onceover", deadline=None)  # kernels compile on first use
settings.load_profile("onceover")

SLOW_TO_START = {"spark", "judged"}
"""Fixtures that take seconds, once per process."""


@pytest.fixture(scope="session")
def spark() -> Iterator[Spark]:
    """The one session of this process; nothing starts before a test runs a task."""
    shared = Spark("local[2]", {"spark.driver.memory": "1g"})
    yield shared
    shared.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the tests, one gets all that need what is slow to start.

    That is Spark, and the library behind `judged`. Files stay together.
    """
    for item in items:
        is_slow = not SLOW_TO_START.isdisjoint(getattr(item, "fixturenames", ()))
        item.add_marker(pytest.mark.xdist_group("slow" if is_slow else item.nodeid.partition("::")[0]))
