"""Random trials against a real broker, each with a seed that repeats it."""

import pytest

from tests.broker.lives import LifeFailed
from tests.broker.tiered_trial import tiered_trial
from tests.broker.trials import kept_on_failure, run_trial

pytestmark = [
    pytest.mark.broker,
    pytest.mark.usefixtures("kafka", "great_expectations"),
    # A client whose broker is killed may leave a connection behind.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def _try(name: str, seed: int) -> dict[str, int]:
    try:
        return run_trial(name, seed)
    except LifeFailed as failure:
        pytest.skip(
            f"the broker's own clients did not get along with it, so there is nothing to compare: {failure}"
        )


def test_captured_requests_get_the_brokers_answers_and_their_log_lives_on_in_a_broker(seed: int) -> None:
    assert _try("capture", seed)["batches"] > 0


def test_captured_transactions_without_their_markers_give_all_that_consumers_got(seed: int) -> None:
    assert _try("alone", seed)["batches"] > 0


def test_a_live_transaction_in_a_skewed_copy_is_held_and_published_with_the_next(seed: int) -> None:
    assert _try("skew", seed)["held"] > 0


def test_copies_under_load_and_captures_of_a_tap_give_what_consumers_got(seed: int) -> None:
    assert _try("tap", seed)["records"] > 0


def test_a_broker_that_compacts_deletes_expires_and_is_upgraded_gives_what_consumers_got(seed: int) -> None:
    assert _try("upkeep", seed)["records"] > 0


def test_a_tier_and_the_tail_of_a_killed_broker_give_what_consumers_got(seed: int) -> None:
    """Two workloads of the ten that `make soak TRIAL=tiered` has at one broker."""
    with kept_on_failure("tiered", seed) as place:
        try:
            found = tiered_trial(place, seed, topics=2)
        except LifeFailed as failure:
            pytest.skip(f"the broker did not get along with its clients: {failure}")
    assert found["uploads"] > 0


def test_tables_of_copies_hold_what_consumers_got_and_keep_every_promise(seed: int) -> None:
    assert _try("workload", seed)["records"] > 0
