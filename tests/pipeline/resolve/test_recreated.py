"""Transactions on a topic that was deleted and created anew are found in the log that holds their data."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.coordinator.history import fold as fold_coordinator
from spark_jobs.kafka.coordinator.timeline import CoordinatorTransaction, timelines
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.outcome import Outcome, ResolvedTransaction
from spark_jobs.kafka.transactions.partition_transactions import LogBatch
from spark_jobs.kafka.transactions.resolve import ProducerTransactions, ResolveContext, resolve
from spark_jobs.pipeline.resolve.recreated import deleted_logs, later_logs, of_logs
from tests.kafka.resolving import outcome_of_batches, parts_of
from tests.kafka.txn_cluster import PARTITIONS, TV0, TV2, Cluster, Producer

COMMIT = TransactionResult.COMMIT
ABORT = TransactionResult.ABORT
STEP_MS = 10_000
LATER = {partition: TopicPartition("t~2", partition.partition) for partition in PARTITIONS}
Logs = dict[TopicPartition, list[LogBatch]]
Truth = dict[tuple[TopicPartition, int], bool | None]


class Recreated:
    """A cluster whose topic is created anew once: its logs of before, and what became of their batches."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.producers = [Producer("old", TV0), Producer("new", TV2)]
        for producer in self.producers:
            self.cluster.init(producer)
        self.before: Logs = {}
        self.truth_before: Truth = {}

    def produce(self, who: int, partition: int) -> None:
        self.cluster.now += STEP_MS
        self.cluster.produce(self.producers[who], PARTITIONS[partition])

    def end(
        self, who: int, result: TransactionResult, *, reached: Sequence[TopicPartition] = PARTITIONS
    ) -> None:
        self.cluster.now += STEP_MS
        self.cluster.end(self.producers[who], result, reached=reached)

    def recreate(self) -> None:
        self.cluster.now += STEP_MS
        self.before, self.truth_before = dict(self.cluster.logs), dict(self.cluster.truth)
        self.cluster.logs = {partition: [] for partition in PARTITIONS}
        self.cluster.truth = {}

    @property
    def logs(self) -> Logs:
        return self.before | {LATER[partition]: log for partition, log in self.cluster.logs.items()}

    @property
    def truth(self) -> Truth:
        return self.truth_before | {(LATER[p], offset): t for (p, offset), t in self.cluster.truth.items()}

    def resolve(self) -> list[ResolvedTransaction]:
        context = ResolveContext(now=self.cluster.now, past=0, clock_skew_ms=1000)
        parts = parts_of(self.logs)
        found: list[ResolvedTransaction] = []
        for known in timelines(fold_coordinator(self.cluster.entries)).values():
            for producer_id in known.producer_ids:
                reported: list[CoordinatorTransaction] = [
                    txn for txn in known.transactions if txn.producer_id == producer_id
                ]
                own = tuple(part for part in parts if part.producer_id == producer_id)
                group = ProducerTransactions(
                    producer_id=producer_id,
                    transactional_id=known.transactional_id,
                    parts=own,
                    coordinator=tuple(of_logs(reported, own, later_logs(self.logs), context)),
                )
                found += resolve(group, context)
        return found


WHO = st.integers(0, 1)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("produce"), WHO, st.integers(0, 2)),
        st.tuples(st.just("commit"), WHO, st.booleans()),
        st.tuples(st.just("abort"), WHO, st.booleans()),
    ),
    max_size=12,
)


def act(world: Recreated, actions: list[tuple[str, int, int]]) -> None:
    """Ends may not reach the partitions: then their producers are done."""
    lost: set[int] = set()
    for kind, who, choice in actions:
        if who in lost:
            continue
        if kind == "produce":
            world.produce(who, choice)
        else:
            reached = PARTITIONS if choice else ()
            world.end(who, COMMIT if kind == "commit" else ABORT, reached=reached)
            lost |= set() if choice else {who}


@given(ACTIONS, ACTIONS)
def test_every_batch_has_the_outcome_of_its_own_transaction(
    before: list[tuple[str, int, int]], after: list[tuple[str, int, int]]
) -> None:
    world = Recreated()
    act(world, [each for each in before if each[0] == "produce" or each[2]])
    for who in range(2):
        world.end(who, COMMIT)
    world.recreate()
    act(world, after)
    resolved = world.resolve()
    outcomes = outcome_of_batches(resolved, world.logs)
    for place, is_committed in world.truth.items():
        if is_committed is None:
            assert not outcomes[place].is_decided
        else:
            assert outcomes[place] is (Outcome.COMMITTED if is_committed else Outcome.ABORTED)
    for each in resolved:
        assert set(each.partitions_found) <= set(each.partitions_expected)


def test_a_transaction_is_only_in_the_log_that_holds_it() -> None:
    world = Recreated()
    world.produce(0, 0)
    world.end(0, COMMIT)
    world.recreate()
    world.produce(0, 0)
    world.end(0, ABORT, reached=())
    committed, aborted = (each for each in world.resolve() if each.parts)
    assert (committed.outcome, committed.partitions_expected) == (Outcome.COMMITTED, (PARTITIONS[0],))
    assert (aborted.outcome, aborted.partitions_expected) == (Outcome.ABORTED, (LATER[PARTITIONS[0]],))
    assert committed.markers_missing == ()


def test_a_transaction_across_both_logs_is_in_both() -> None:
    world = Recreated()
    world.produce(1, 0)
    world.recreate()
    world.produce(1, 0)
    world.end(1, COMMIT)
    (resolved,) = (each for each in world.resolve() if each.parts)
    assert resolved.outcome is Outcome.COMMITTED
    assert resolved.partitions_expected == (PARTITIONS[0], LATER[PARTITIONS[0]])


def test_without_any_part_the_newest_log_is_meant() -> None:
    world = Recreated()
    world.recreate()
    world.produce(1, 2)
    world.cluster.logs[PARTITIONS[2]].clear()
    (resolved,) = world.resolve()
    assert resolved.partitions_expected == (LATER[PARTITIONS[2]],)


def test_logs_are_in_the_order_of_their_numbers() -> None:
    names = ["t~10", "t", "t~9", "other"]
    found = later_logs([TopicPartition(name, 0) for name in names])
    assert found == {TopicPartition("t", 0): tuple(TopicPartition(n, 0) for n in ("t", "t~9", "t~10"))}


def test_only_the_newest_log_of_a_topic_still_exists() -> None:
    partitions = [TopicPartition(name, number) for name in ("t", "t~2", "other") for number in range(2)]
    deleted = deleted_logs([*partitions, TopicPartition("t", 2), TopicPartition("t~10", 0)])
    gone = {TopicPartition(name, number) for name in ("t", "t~2") for number in range(2)}
    assert deleted == gone | {TopicPartition("t", 2)}
