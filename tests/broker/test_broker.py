"""A real broker as judge: random trials, each with a seed that repeats it."""

import os

import pytest

from tests.broker.trials import run_trial

pytestmark = [
    pytest.mark.broker,
    pytest.mark.usefixtures("kafka", "great_expectations"),
    # A client whose broker is killed may leave a connection behind.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_captured_requests_get_the_brokers_answers_and_their_log_lives_on_in_a_broker(seed: int) -> None:
    assert run_trial("capture", seed)["batches"] > 0


def test_captured_transactions_without_their_markers_give_all_that_consumers_got(seed: int) -> None:
    assert run_trial("alone", seed)["batches"] > 0


def test_a_broker_that_compacts_deletes_forgets_and_is_upgraded_gives_what_consumers_got(seed: int) -> None:
    assert run_trial("upkeep", seed)["records"] > 0


@pytest.mark.skipif(
    "ONCEOVER_WORKLOAD" not in os.environ,
    reason="real clients at a broker that is killed take minutes and their own course: make test-broker",
)
def test_tables_of_copies_hold_what_consumers_got_and_keep_every_promise(seed: int) -> None:
    assert run_trial("workload", seed)["records"] > 0
