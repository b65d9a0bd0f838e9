"""Random histories, cut into nights at random: whatever is torn, late or missing, the tables are right.

A real coordinator drives producers of both kinds. Each night copies the logs as they are, perhaps without
their last markers, and goes through the real steps. Over all nights every committed batch is published, once,
by the night that publishes all of its transaction; nothing else ever is.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.protocol.coordinator_history import CoordinatorRecord
from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.protocol.partition_transactions import LogBatch
from spark_jobs.protocol.producer_state import TransactionVersion
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transactions import ResolveContext
from tests.protocol.resolving import outcome_of_batches, parts_of, resolve_all
from tests.protocol.txn_cluster import PARTITIONS, TV0, TV2, Cluster, Producer
from tests.resolving.night_lake import Batch, NightLake, Resolved, end_of_day

MINUTES = 60_000
CLOCK_SKEW_MS = 1000
ACTIONS = ("produce",) * 8 + ("join", "commit", "commit", "commit", "abort", "init", "lose", "fail over")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS),
        st.integers(0, 2),
        st.integers(0, len(PARTITIONS) - 1),
        st.sampled_from((1, 5, 40, 900, 8000)),
    ),
    min_size=4,
    max_size=24,
)
Step = tuple[str, int, int, int]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Plan:
    """One night: what happens before its copy, how many markers the copy lacks at each log's end.

    `starts_early` has the night's events long before its logical time, so that what is open has timed out by
    then; `coordinator_wakes` says that the coordinator has noticed before the next night.
    """

    steps: list[Step]
    lost_markers: tuple[int, ...]
    starts_early: bool
    coordinator_wakes: bool


PLANS = st.lists(
    st.builds(
        Plan,
        steps=STEPS,
        lost_markers=st.tuples(*[st.integers(0, 2)] * len(PARTITIONS)),
        starts_early=st.booleans(),
        coordinator_wakes=st.booleans(),
    ),
    min_size=1,
    max_size=3,
)
VERSIONS = st.tuples(*[st.sampled_from((TV0, TV2))] * 3)


@dataclass(slots=True)
class World:
    """A cluster, its producers, and which transaction each batch belongs to."""

    versions: tuple[TransactionVersion, ...]
    cluster: Cluster = field(default_factory=Cluster)
    producers: list[Producer] = field(default_factory=list)
    running: Counter[str] = field(default_factory=Counter)
    owners: dict[Batch, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster.now = end_of_day(0) - 30 * MINUTES
        for number, version in enumerate(self.versions):
            self.producers.append(Producer(f"id-{number}", version))
            self.cluster.init(self.producers[-1])

    @property
    def committed(self) -> list[Batch]:
        return [batch for batch, truth in self.cluster.truth.items() if truth]

    def act(self, step: Step) -> None:
        action, who, where, gap = step
        producer, partition = self.producers[who], PARTITIONS[where]
        self.cluster.now += gap
        before = len(self.cluster.truth)
        if action == "produce":
            self.cluster.produce(producer, partition)
            if len(self.cluster.truth) > before:
                batch = next(reversed(self.cluster.truth))
                self.owners[batch] = (producer.transactional_id, self.running[producer.transactional_id])
            return
        if action == "join":
            self.cluster.join(producer, partition)
            return
        self._end(action, producer, partition)

    def _end(self, action: str, producer: Producer, partition: TopicPartition) -> None:
        if action == "fail over":
            self.cluster.fail_over()
        elif action == "init":
            self.cluster.init(producer)
            self.running[producer.transactional_id] += 1
        else:
            reached = {partition} if action == "lose" else set(PARTITIONS)
            result = TransactionResult.ABORT if action == "abort" else TransactionResult.COMMIT
            self.cluster.end(producer, result, reached=reached)
            self.running[producer.transactional_id] += 1

    def copy(self, lost_markers: Iterable[int]) -> dict[TopicPartition, list[LogBatch]]:
        """The logs as they are, without some of the markers that stand last."""
        return {
            partition: _without_last_markers(log, lost)
            for (partition, log), lost in zip(self.cluster.logs.items(), lost_markers, strict=True)
        }


def _without_last_markers(log: list[LogBatch], lost: int) -> list[LogBatch]:
    kept = list(log)
    while lost and kept and kept[-1][1] is not None:
        kept.pop()
        lost -= 1
    return kept


def play(world: World, plan: Plan, number: int) -> None:
    """Everything that happens before the copy of night `number`."""
    cluster = world.cluster
    early = 20 * MINUTES if plan.starts_early else 5 * MINUTES
    cluster.now = max(cluster.now, end_of_day(number) - early)
    for step in plan.steps:
        world.act(step)


def wake(world: World, number: int) -> None:
    """The coordinator ends what has timed out by now, and fences its producers."""
    world.cluster.now = max(world.cluster.now, end_of_day(number) + MINUTES)
    world.cluster._apply(world.cluster.coordinator.abort_timed_out(now=world.cluster.now))


def check_whole(found: Resolved, world: World, copied: Mapping[TopicPartition, list[LogBatch]]) -> None:
    """No transaction is torn."""
    there = {batch for partition, log in copied.items() for batch in _data(partition, log)}
    for owner in {world.owners[batch] for batch in found.published}:
        whole = {batch for batch, own in world.owners.items() if own == owner and batch in there}
        assert whole <= set(found.published), f"{owner} is torn"


def check_outcomes(
    found: Resolved,
    copied: Mapping[TopicPartition, list[LogBatch]],
    entries: Iterable[CoordinatorRecord],
    number: int,
) -> None:
    """Outcomes are those that the rules give for all that was ever copied, taken together."""
    context = ResolveContext(now=end_of_day(number), clock_skew_ms=CLOCK_SKEW_MS)
    expected = outcome_of_batches(resolve_all(entries, parts_of(copied), context), copied)
    assert found.outcomes == {batch: expected[batch] for batch in found.outcomes}


def _data(partition: TopicPartition, log: Iterable[LogBatch]) -> Iterable[Batch]:
    return ((partition, header.last_offset) for header, marker in log if marker is None)


@pytest.fixture(autouse=True, scope="module")
def unsynced() -> Iterator[None]:
    """Nothing here is about power cuts, and waiting for the disk is most of a small night's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@settings(max_examples=10)
@given(plans=PLANS, versions=VERSIONS)
def test_every_committed_batch_is_published_once_and_whole(
    plans: list[Plan], versions: tuple[TransactionVersion, ...]
) -> None:
    world = World(versions)
    published: list[Batch] = []
    with TemporaryDirectory() as directory:
        lake = NightLake(Path(directory))
        for number, plan in enumerate(plans):
            play(world, plan, number)
            copied = world.copy(plan.lost_markers)
            lake.copy_logs(copied, world.cluster.entries)
            found = lake.night(number)
            check_whole(found, world, copied)
            check_outcomes(found, copied, world.cluster.entries, number)
            published += found.published
            if plan.coordinator_wakes:
                wake(world, number)
        published += last_night(lake, world, len(plans))
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
        lake = NightLake(Path(directory))
        for number, plan in enumerate(plans):
            play(world, plan, number)
            copied = {p: _longer(copied[p], log, next(cuts)) for p, log in world.cluster.logs.items()}
            entries = _longer(entries, world.cluster.entries, next(cuts) // 2)
            lake.copy_logs(copied, entries)
            found = lake.night(number)
            check_outcomes(found, copied, entries, number)
            published += found.published
            if plan.coordinator_wakes:
                wake(world, number)
        published += last_night(lake, world, len(plans))
    assert Counter(published) == Counter(world.committed)


def _longer(before: list[Item], log: list[Item], lost: int) -> list[Item]:
    """The log without its end, but at least what an earlier night has seen of it."""
    return max(before, log[: max(len(log) - lost, 0)], key=len)


def last_night(lake: NightLake, world: World, number: int) -> tuple[Batch, ...]:
    """All producers start anew, which ends whatever was open."""
    world.cluster.now = max(world.cluster.now, end_of_day(number) - 5 * MINUTES)
    for producer in world.producers:
        world.cluster.init(producer)
    lake.copy_logs(world.cluster.logs, world.cluster.entries)
    return lake.night(number).published
