"""Random histories, cut into runs at random: the tables are right with torn, late and missing data.

A real coordinator drives producers of both kinds. Each run copies the logs as they are, perhaps without
their last markers, and goes through the real steps. Over all runs every committed batch is published, once,
by the run that publishes all of its transaction; nothing else ever is.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.kafka.coordinator.history import CoordinatorRecord
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.outcome import Outcome, ResolvedTransaction
from spark_jobs.kafka.transactions.partition_transactions import LogBatch
from spark_jobs.kafka.transactions.resolve import ResolveContext
from spark_jobs.pipeline.resolve.transaction_rows import DATA_WAIT_MS
from tests.kafka.resolving import outcome_of_batches, parts_of, reach_of, resolve_all
from tests.kafka.txn_cluster import PARTITIONS
from tests.pipeline.resolve.run_lake import Batch, Resolved, RunLake, end_of_day
from tests.pipeline.resolve.worlds import PLANS, VERSIONS, Plan, World, finish, play, wake

CLOCK_SKEW_MS = 1000
Item = TypeVar("Item")


def check_outcomes(
    found: Resolved,
    copied: Mapping[TopicPartition, list[LogBatch]],
    entries: Sequence[CoordinatorRecord],
    number: int,
) -> None:
    """Outcomes are those that the rules give for all that was ever copied, taken together."""
    context = ResolveContext(
        now=end_of_day(number),
        past=end_of_day(number - 1),
        clock_skew_ms=CLOCK_SKEW_MS,
        reach=reach_of(entries, copied, clock_skew_ms=CLOCK_SKEW_MS),
    )
    resolved = resolve_all(entries, parts_of(copied), context)
    expected = outcome_of_batches(resolved, copied)
    forgotten = outcome_of_batches((txn for txn in resolved if _may_be_forgotten(txn, context)), copied)
    reported = {
        batch: outcome
        for batch, outcome in found.outcomes.items()
        if not (batch in forgotten and outcome == Outcome.HANGING)
    }
    assert reported == {batch: expected[batch] for batch in reported}


def _may_be_forgotten(txn: ResolvedTransaction, context: ResolveContext) -> bool:
    """Its data came more than a day after its end, on a partition that had not been copied before."""
    known = txn.coordinator
    if known is None or not known.state.is_complete:
        return False
    return context.now - known.last_update_timestamp_ms >= DATA_WAIT_MS


def _data(partition: TopicPartition, log: Iterable[LogBatch]) -> Iterable[Batch]:
    return ((partition, header.last_offset) for header, marker in log if marker is None)


@settings(max_examples=10)
@given(plans=PLANS, versions=VERSIONS)
def test_every_committed_batch_is_published_once_and_whole(
    plans: list[Plan], versions: tuple[TransactionVersion, ...]
) -> None:
    world = World(versions)
    published: list[Batch] = []
    with TemporaryDirectory() as directory:
        lake = RunLake(Path(directory))
        for number, plan in enumerate(plans):
            play(world, plan, number)
            copied = world.copy(plan.lost_markers)
            lake.copy_logs(copied, world.cluster.entries)
            found = lake.run(number)
            there = {batch for partition, log in copied.items() for batch in _data(partition, log)}
            world.check_whole(found.published, there)
            check_outcomes(found, copied, world.cluster.entries, number)
            published += found.published
            if plan.coordinator_wakes:
                wake(world, number)
        published += previous(lake, world, len(plans))
    assert Counter(published) == Counter(world.committed)


@settings(max_examples=10)
@given(plans=PLANS, versions=VERSIONS, torn=st.lists(st.integers(0, 6), min_size=12, max_size=12))
def test_copies_torn_at_random_delay_batches_but_lose_and_repeat_none(
    plans: list[Plan], versions: tuple[TransactionVersion, ...], torn: list[int]
) -> None:
    world, cuts = World(versions), iter(torn)
    published: list[Batch] = []
    copied: dict[TopicPartition, list[LogBatch]] = {partition: [] for partition in PARTITIONS}
    entries: list[CoordinatorRecord] = []
    with TemporaryDirectory() as directory:
        lake = RunLake(Path(directory))
        for number, plan in enumerate(plans):
            play(world, plan, number)
            copied = {p: _longer(copied[p], log, next(cuts)) for p, log in world.cluster.logs.items()}
            entries = _longer(entries, world.cluster.entries, next(cuts) // 2)
            lake.copy_logs(copied, entries)
            found = lake.run(number)
            check_outcomes(found, copied, entries, number)
            published += found.published
            if plan.coordinator_wakes:
                wake(world, number)
        published += previous(lake, world, len(plans))
    assert Counter(published) == Counter(world.committed)


def _longer(before: list[Item], log: list[Item], lost: int) -> list[Item]:
    """The log without its end, but at least what an earlier run has seen of it."""
    return max(before, log[: max(len(log) - lost, 0)], key=len)


def previous(lake: RunLake, world: World, number: int) -> tuple[Batch, ...]:
    finish(world, number)
    lake.copy_logs(world.cluster.logs, world.cluster.entries)
    return lake.run(number).published
