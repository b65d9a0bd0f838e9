"""Random histories of a small cluster, run by run."""

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import LogBatch
from tests.kafka.txn_cluster import PARTITIONS, TV0, TV2, Cluster, Producer
from tests.pipeline.resolve.run_lake import Batch, end_of_day

MINUTES = 60_000
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


@dataclass(frozen=True, slots=True)
class Plan:
    """One run: what happens before its copy, how many markers the copy lacks at each log's end.

    `starts_early` has the run's events long before its end, so that what is open has timed out by then;
    `coordinator_wakes`: the coordinator has noticed before the next run.
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
    """A cluster, its producers, and which transaction each batch belongs to.

    At least `pause_ms` are between any two things that happen.
    """

    versions: tuple[TransactionVersion, ...]
    pause_ms: int = 0
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
        self.cluster.now += gap + self.pause_ms
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

    def check_whole(self, run: Iterable[Batch], there: Container[Batch] | None = None) -> None:
        """Of every transaction that a run shows it shows all that was there."""
        shown = set(run)
        for owner in {self.owners[batch] for batch in shown}:
            own = {batch for batch, each in self.owners.items() if each == owner}
            whole = own if there is None else {batch for batch in own if batch in there}
            assert whole <= shown, f"{owner} is torn"

    def copy(self, lost_markers: Iterable[int]) -> dict[TopicPartition, list[LogBatch]]:
        """The logs as they are, without some of the last markers."""
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
    """Everything that happens before the copy of run `number`."""
    cluster = world.cluster
    early = 20 * MINUTES if plan.starts_early else 5 * MINUTES
    cluster.now = max(cluster.now, end_of_day(number) - early)
    for step in plan.steps:
        world.act(step)


def wake(world: World, number: int) -> None:
    """The coordinator ends what has timed out by now, and fences its producers."""
    world.cluster.now = max(world.cluster.now, end_of_day(number) + MINUTES)
    world.cluster._apply(world.cluster.coordinator.abort_timed_out(now=world.cluster.now))


def finish(world: World, number: int) -> None:
    """All producers start anew before the copy of run `number`, which ends all open transactions."""
    world.cluster.now = max(world.cluster.now, end_of_day(number) - 5 * MINUTES)
    for producer in world.producers:
        world.cluster.init(producer)
