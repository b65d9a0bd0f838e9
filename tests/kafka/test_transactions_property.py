"""Random histories, damaged at random: an outcome may be missing, but never wrong.

A real coordinator drives producers of both kinds; then partitions are torn, the coordinator's log is
compacted or cut, or markers are missing altogether. In every case no aborted or open batch is called
committed and no committed one aborted.
"""

from dataclasses import dataclass, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_jobs.kafka.coordinator.history import CoordinatorRecord
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.kafka.transactions.partition_transactions import LogBatch
from spark_jobs.kafka.transactions.resolve import ResolveContext
from spark_jobs.sample.broker.coordinator import TransactionCoordinator
from tests.kafka.resolving import batches_of, outcome_of_batches, parts_of, reach_of, resolve_all
from tests.kafka.txn_cluster import PARTITIONS, TV0, TV2, Cluster, Producer

Logs = dict[TopicPartition, list[LogBatch]]
Step = tuple[str, int, int, int]
Outcomes = dict[tuple[TopicPartition, int], Outcome]

ACTIONS = ("produce",) * 8 + (
    "join",
    "commit",
    "commit",
    "commit",
    "abort",
    "abort",
    "init",
    "lose",
    "fail over",
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS),
        st.integers(0, 1),
        st.integers(0, len(PARTITIONS) - 1),
        st.sampled_from((1, 5, 40, 900, 8000)),
    ),
    max_size=40,
)
SKEWS = st.sampled_from((0, 30, 500, 5000))
OLD, NEW, MIXED = (TV0, TV0), (TV2, TV2), (TV0, TV2)
CLIENTS = st.sampled_from((OLD, NEW, MIXED))
EXPECTED = {True: Outcome.COMMITTED, False: Outcome.ABORTED, None: Outcome.ONGOING}

random_histories = settings(max_examples=150)


def run(
    steps: list[Step],
    clients: tuple[TransactionVersion, ...],
    version: TransactionVersion = TransactionVersion.TV2,
    *,
    timeout_ms: int = 900_000,
) -> Cluster:
    """A cluster of that feature level after `steps`: what, by whom, where, how long after the one before."""
    coordinator = TransactionCoordinator(transaction_version=version, max_timeout_ms=2**31 - 1)
    cluster = Cluster(coordinator=coordinator, timeout_ms=timeout_ms)
    producers = [Producer(f"id-{number}", client) for number, client in enumerate(clients)]
    for producer in producers:
        cluster.init(producer)
    for action, who, where, gap in steps:
        cluster.now += gap
        act(cluster, producers[who], action, PARTITIONS[where])
    return cluster


def act(cluster: Cluster, producer: Producer, action: str, partition: TopicPartition) -> None:
    if action == "produce":
        cluster.produce(producer, partition)
    elif action == "join":
        cluster.join(producer, partition)
    elif action == "init":
        cluster.init(producer)
    elif action == "fail over":
        cluster.fail_over()
    elif action == "lose":
        cluster.end(producer, TransactionResult.COMMIT, reached={partition})
    else:
        cluster.end(producer, TransactionResult(action))


def context(cluster: Cluster, skew: int) -> ResolveContext:
    return ResolveContext(now=cluster.now, past=cluster.now, clock_skew_ms=skew)


def outcomes(entries: list[CoordinatorRecord], logs: Logs, known: ResolveContext) -> Outcomes:
    """The outcome of each data batch in `logs`; that there is exactly one is checked here."""
    parts = parts_of(logs) if known.has_markers else batches_of(logs)
    marked = logs if known.has_markers else {}
    reach = reach_of(entries, marked, clock_skew_ms=known.clock_skew_ms)
    found = outcome_of_batches(resolve_all(entries, parts, replace(known, reach=reach)), logs)
    data = {(p, header.last_offset) for p, log in logs.items() for header, marker in log if marker is None}
    assert found.keys() == data
    return found


def wrong(found: Outcomes, cluster: Cluster) -> Outcomes:
    """Wrong outcomes, for a consumer or for an operator."""
    return {
        batch: outcome
        for batch, outcome in found.items()
        if outcome is Outcome.CONFLICT
        or (outcome is Outcome.HANGING and cluster.truth[batch] is None)
        or (outcome.is_decided and outcome is not EXPECTED[cluster.truth[batch]])
    }


def torn(cluster: Cluster, cuts: list[int]) -> Logs:
    return {p: log[: cut % (len(log) + 1)] for (p, log), cut in zip(cluster.logs.items(), cuts, strict=True)}


def compacted(entries: list[CoordinatorRecord], end: int) -> list[CoordinatorRecord]:
    """Only the last record of each id is left before `end`."""
    last = {entry.transactional_id: entry.offset for entry in entries[:end]}
    return [entry for entry in entries if entry.offset >= end or last[entry.transactional_id] == entry.offset]


@dataclass(frozen=True, slots=True)
class Copy:
    """By how much producers backdate their records, and how long transactions may last; ms."""

    backdated: int
    timeout: int


LIVE = [("produce", 0, 0, 900), ("produce", 1, 0, 1), ("commit", 1, 0, 1)]
"""A transaction that began after the first records of the coordinator, behind which a marker was written."""

CUTS = st.lists(st.integers(0, 60), min_size=len(PARTITIONS), max_size=len(PARTITIONS))


@random_histories
@given(steps=STEPS, clients=CLIENTS, skew=SKEWS)
def test_with_all_logs_whole_every_outcome_is_the_truth(
    steps: list[Step], clients: tuple[TransactionVersion, ...], skew: int
) -> None:
    cluster = run(steps, clients)
    cluster.fail_over()
    found = outcomes(cluster.entries, cluster.logs, context(cluster, skew))
    assert found == {batch: EXPECTED[truth] for batch, truth in cluster.truth.items()}


@random_histories
@given(steps=STEPS, clients=CLIENTS, skew=SKEWS, cuts=CUTS)
def test_torn_partitions_get_no_wrong_outcome(
    steps: list[Step], clients: tuple[TransactionVersion, ...], skew: int, cuts: list[int]
) -> None:
    cluster = run(steps, clients)
    found = outcomes(cluster.entries, torn(cluster, cuts), context(cluster, skew))
    assert not wrong(found, cluster)


@random_histories
@given(steps=STEPS, skew=SKEWS, cuts=CUTS)
def test_tv2_needs_no_marker_where_the_coordinators_log_is_whole(
    steps: list[Step], skew: int, cuts: list[int]
) -> None:
    cluster = run(steps, NEW)
    found = outcomes(cluster.entries, torn(cluster, cuts), context(cluster, skew))
    assert found == {batch: EXPECTED[cluster.truth[batch]] for batch in found}


@random_histories
@given(steps=STEPS, clients=st.sampled_from((OLD, NEW)), skew=SKEWS, cuts=CUTS, end=st.integers(0, 120))
def test_a_compacted_coordinator_log_gives_no_wrong_outcome(
    steps: list[Step], clients: tuple[TransactionVersion, ...], skew: int, cuts: list[int], end: int
) -> None:
    # Two things can mislead when a partition is torn as well, and are left out for older clients: a TV2
    # cluster stores their fences as TV2, and what is prepared decides all it lists, whatever came before.
    version = TransactionVersion.TV2 if clients is NEW else TransactionVersion.TV1
    kept = steps if clients is NEW else [step for step in steps if step[0] != "lose"]
    cluster = run(kept, clients, version)
    left = compacted(cluster.entries, end)
    for logs in (cluster.logs, torn(cluster, cuts)):
        assert not wrong(outcomes(left, logs, context(cluster, skew)), cluster)


@random_histories
@given(steps=STEPS, clients=CLIENTS, skew=SKEWS, cuts=CUTS, end=st.integers(1, 120))
def test_a_coordinator_log_that_ends_early_gives_no_wrong_outcome(
    steps: list[Step], clients: tuple[TransactionVersion, ...], skew: int, cuts: list[int], end: int
) -> None:
    cluster = run(steps, clients)
    entries = cluster.entries[:end]
    known = replace(context(cluster, skew), now=cluster.written_at[len(entries) - 1])
    for logs in (cluster.logs, torn(cluster, cuts)):
        assert not wrong(outcomes(entries, logs, known), cluster)


@random_histories
@given(
    steps=STEPS,
    clients=CLIENTS,
    cuts=CUTS,
    end=st.integers(1, 120),
    copy=st.builds(
        Copy,
        backdated=st.sampled_from((0, 1, 100, 10**6, 10**11)),
        timeout=st.sampled_from((1, 10, 900_000)),
    ),
)
@example(steps=LIVE, clients=NEW, cuts=[9] * 3, end=1, copy=Copy(backdated=10**11, timeout=10))
@example(steps=LIVE, clients=NEW, cuts=[9] * 3, end=1, copy=Copy(backdated=0, timeout=1))
def test_no_live_transaction_is_hanging_however_old_the_coordinators_copy_is(
    steps: list[Step],
    clients: tuple[TransactionVersion, ...],
    cuts: list[int],
    end: int,
    copy: Copy,
) -> None:
    cluster = run(steps, clients, timeout_ms=copy.timeout)
    known = replace(context(cluster, 0), past=0, max_timeout_ms=copy.timeout)
    for copied in (cluster.logs, torn(cluster, cuts)):
        logs = {name: [_backdated(batch, copy.backdated) for batch in log] for name, log in copied.items()}
        found = outcomes(cluster.entries[: 1 + end % len(cluster.entries)], logs, known)
        assert not [
            batch
            for batch, outcome in found.items()
            if outcome is Outcome.HANGING and cluster.truth[batch] is None
        ]


def _backdated(batch: LogBatch, by: int) -> LogBatch:
    """A producer's batch with the time of an event; markers have the broker's."""
    header, marker = batch
    if marker is not None or not isinstance(header, RecordBatchHeader):
        return batch
    return replace(header, max_timestamp=max(header.max_timestamp - by, 0)), marker


@random_histories
@given(steps=STEPS, clients=CLIENTS, cuts=CUTS)
def test_without_a_coordinator_log_markers_alone_decide(
    steps: list[Step], clients: tuple[TransactionVersion, ...], cuts: list[int]
) -> None:
    cluster = run(steps, clients)
    known = replace(context(cluster, 0), has_coordinator_log=False)
    assert not wrong(outcomes([], torn(cluster, cuts), known), cluster)
    cluster.fail_over()
    found = outcomes([], cluster.logs, known)
    assert found == {batch: EXPECTED[truth] for batch, truth in cluster.truth.items()}


@random_histories
@given(steps=STEPS, clients=CLIENTS, skew=SKEWS, end=st.integers(0, 120))
def test_a_capture_gets_no_wrong_outcome(
    steps: list[Step], clients: tuple[TransactionVersion, ...], skew: int, end: int
) -> None:
    cluster = run(steps, clients)
    known = replace(context(cluster, skew), has_markers=False)
    for entries in (cluster.entries, compacted(cluster.entries, end)):
        assert not wrong(outcomes(entries, cluster.logs, known), cluster)


@random_histories
@given(steps=STEPS, skew=SKEWS)
def test_a_capture_of_tv2_clients_is_decided_by_producer_id_and_epoch(steps: list[Step], skew: int) -> None:
    cluster = run(steps, NEW)
    known = replace(context(cluster, skew), has_markers=False)
    found = outcomes(cluster.entries, cluster.logs, known)
    assert found == {batch: EXPECTED[truth] for batch, truth in cluster.truth.items()}
