"""Copies of a live broker made in every wrong way: nothing wrong is published, nothing is lost for good."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.conftest import kafka  # noqa: F401 — Kafka's jars, or the tests are skipped
from tests.broker.lives import LifeFailed, lived
from tests.broker.watched_life import Watched, watched_life
from tests.faults.chaos_trial import ChaosTrial

pytestmark = [
    pytest.mark.broker,
    pytest.mark.usefixtures("kafka", "great_expectations"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
LIFE_SEED = 9
SEEDS = range(200 if os.environ.get("ONCEOVER_EVERY_FAULT") else 6)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """One broker under load for all seeds: they differ in how it was copied."""
    try:
        with lived():
            yield watched_life(tmp_path_factory.mktemp("watched"), LIFE_SEED)
    except LifeFailed as failure:
        pytest.skip(f"the broker's own clients failed, so there is nothing to compare: {failure}")


@pytest.mark.parametrize("seed", SEEDS)
def test_faulty_copies_publish_nothing_wrong_and_lose_nothing(
    watched: Watched, tmp_path: Path, seed: int
) -> None:
    counts = ChaosTrial(watched, tmp_path, seed).run()
    assert counts["records"] > 0
