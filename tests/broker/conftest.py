"""Without Kafka's jars every test here is skipped, with the reason."""

import gc
from collections.abc import Iterator

import pytest

from tests.broker.judge import JudgeUnavailableError, kafka_jars
from tests.broker.trials import SEED, chosen_seed


@pytest.fixture(scope="session")
def kafka() -> None:
    """Kafka's jars are here, or the test is skipped."""
    try:
        kafka_jars()
    except JudgeUnavailableError as missing:
        pytest.skip(f"no broker to judge by: {missing}")


@pytest.fixture
def seed() -> int:
    """Printed, so that a failure shows it."""
    number = chosen_seed()
    print(f"{SEED}={number}")
    return number


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    """What clients left open is complained of here, where it is forgiven, not in whichever test is next."""
    yield
    gc.collect()
