"""Captures without markers: the coordinator's log alone ends transactions, by epoch or by time."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.kafka.producers.producer_state import TransactionVersion
from tests.kafka.txn_cluster import TV0, TV2
from tests.pipeline.resolve.capture_lake import capture_lake
from tests.pipeline.resolve.run_lake import Batch
from tests.pipeline.resolve.worlds import PLANS, Plan, World, finish, play, wake


def published_over_runs(
    world: World, plans: list[Plan], *, skew_ms: int, version: str = "TV2"
) -> list[list[Batch]]:
    """The batches that each run publishes, the last one after all transactions have ended."""
    with TemporaryDirectory() as directory:
        lake = capture_lake(Path(directory), skew_ms=skew_ms, version=version)
        runs = []
        for number, plan in enumerate(plans):
            play(world, plan, number)
            runs.append(lake.run(number, world.cluster.logs, world.cluster.entries)[1])
            if plan.coordinator_wakes:
                wake(world, number)
        finish(world, len(plans))
        runs.append(lake.run(len(plans), world.cluster.logs, world.cluster.entries)[1])
        return runs


@settings(max_examples=10)
@given(plans=PLANS, skew_ms=st.sampled_from((0, 1000, 60_000)))
def test_a_tv2_clients_epoch_ends_its_transactions_whatever_the_clocks_say(
    plans: list[Plan], skew_ms: int
) -> None:
    world = World((TV2, TV2, TV2))
    runs = published_over_runs(world, plans, skew_ms=skew_ms)
    assert Counter(batch for run in runs for batch in run) == Counter(world.committed)
    for run in runs:
        world.check_whole(run)


@settings(max_examples=10)
@given(
    plans=PLANS,
    versions=st.tuples(*[st.sampled_from((TV0, TV2))] * 3),
    skew_ms=st.sampled_from((0, 30, 1000)),
)
def test_of_older_clients_only_what_is_certain_is_published_and_only_once(
    plans: list[Plan], versions: tuple[TransactionVersion, ...], skew_ms: int
) -> None:
    world = World(versions)
    runs = published_over_runs(world, plans, skew_ms=skew_ms)
    published = Counter(batch for run in runs for batch in run)
    assert not published - Counter(world.committed)


@settings(max_examples=10)
@given(plans=PLANS)
def test_older_clients_whose_clocks_agree_lose_nothing(plans: list[Plan]) -> None:
    world = World((TV0, TV0, TV0), pause_ms=10)
    runs = published_over_runs(world, plans, skew_ms=1, version="TV1")
    assert Counter(batch for run in runs for batch in run) == Counter(world.committed)
