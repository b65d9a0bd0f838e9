"""Random trials against a real broker, each with a seed that repeats it.

Where brokers or their clients fail, a trial has nothing to compare and is skipped, at most one in three.
"""

import os
from pathlib import Path

import pytest

from tests.broker.cluster_trial import cluster_trial
from tests.broker.lives import LifeFailed
from tests.broker.moves_trial import moves_trial
from tests.broker.tiered_trial import tiered_trial
from tests.broker.trials import TRIALS, Trial, kept_on_failure

pytestmark = [
    pytest.mark.broker,
    pytest.mark.usefixtures("kafka", "great_expectations"),
    # A client whose broker is killed may leave a connection behind.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MOST_SKIPPED = 3
"""Of the nine trials here."""


class Trials:
    """Tries one at a time; failures of brokers and clients are counted over all processes of the tests."""

    def __init__(self, seed: int, failures: Path) -> None:
        self.seed, self._failures = seed, failures

    def __call__(self, name: str, trial: Trial | None = None) -> dict[str, int]:
        """What the trial compared; skips the test if there is nothing to compare."""
        try:
            with kept_on_failure(name, self.seed) as place:
                return (trial or TRIALS[name])(place, self.seed)
        except LifeFailed as failure:
            problem = f"{name}: brokers or their clients failed, so there is nothing to compare: {failure}"
        with self._failures.open("a") as file:
            file.write(f"{name}\n")
        failed = self._failures.read_text().split()
        if len(failed) > MOST_SKIPPED:
            pytest.fail(f"{problem}. Too many trials had no result: {', '.join(failed)}")
        pytest.skip(problem)


@pytest.fixture
def tried(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Trials:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return Trials(seed, shared / "trials-without-a-result")


def test_captured_requests_get_the_brokers_answers_and_their_log_lives_on_in_a_broker(tried: Trials) -> None:
    assert tried("capture")["batches"] > 0


def test_captured_transactions_without_their_markers_give_all_that_consumers_got(tried: Trials) -> None:
    assert tried("alone")["batches"] > 0


def test_a_live_transaction_in_a_skewed_copy_is_held_and_published_with_the_next(tried: Trials) -> None:
    assert tried("skew")["held"] > 0


def test_copies_under_load_and_captures_of_a_tap_give_what_consumers_got(tried: Trials) -> None:
    assert tried("tap")["records"] > 0


def test_a_broker_that_compacts_deletes_expires_and_is_upgraded_gives_what_consumers_got(
    tried: Trials,
) -> None:
    assert tried("upkeep")["records"] > 0


def test_a_tier_and_the_tail_of_a_killed_broker_give_what_consumers_got(tried: Trials) -> None:
    """Two workloads of the ten that `make soak TRIAL=tiered` has at one broker."""
    assert tried("tiered", lambda place, seed: tiered_trial(place, seed, topics=2))["uploads"] > 0


def test_a_fetch_that_is_killed_from_a_broker_that_is_killed_gives_what_consumers_got(tried: Trials) -> None:
    """Shorter than `make soak TRIAL=cluster`."""
    assert tried("cluster", lambda place, seed: cluster_trial(place, seed, work_seconds=1.0))["records"] > 0


def test_leaders_that_move_during_a_fetch_give_what_consumers_got(tried: Trials) -> None:
    """A quarter of the transactions of `make soak TRIAL=moves`."""
    assert tried("moves", lambda place, seed: moves_trial(place, seed, transactions=5))["records"] > 0


def test_tables_of_copies_hold_what_consumers_got_and_keep_every_promise(tried: Trials) -> None:
    assert tried("workload")["records"] > 0
