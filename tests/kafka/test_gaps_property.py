"""Random histories with missing batches and markers: no transaction across a gap is decided wrongly.

The gaps are those of the merged copies. No aborted batch of a transaction across a gap is called committed,
and no committed one aborted.
"""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_jobs.kafka.coordinator.history import CoordinatorRecord
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.log.replica_copies import merge_copies
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction, fold
from spark_jobs.kafka.transactions.resolve import ResolveContext
from tests.kafka.resolving import outcome_of_batches, resolve_all
from tests.kafka.test_transactions_property import (
    CLIENTS,
    NEW,
    OLD,
    SKEWS,
    STEPS,
    Logs,
    Outcomes,
    Step,
    compacted,
    context,
    run,
    wrong,
)

LOST = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), min_size=1, max_size=6)
Lost = list[tuple[int, int]]
MARKER_AND_NEXT_BATCH: list[Step] = [
    ("produce", 0, 0, 1),
    *[("produce", 0, 1, 1)] * 3,
    ("commit", 0, 0, 1),
    ("produce", 0, 1, 1),
    ("abort", 0, 0, 1),
]
"""The rest of the second partition without them looks aborted; the first one shows that it is not."""

random_histories = settings(max_examples=200)


def without(logs: Logs, lost: Lost) -> Logs:
    """The logs without some of their batches."""
    left = {}
    for number, (partition, log) in enumerate(logs.items()):
        gone = {offset % len(log) for where, offset in lost if where == number and log}
        left[partition] = [batch for offset, batch in enumerate(log) if offset not in gone]
    return left


def parts_with_gaps(logs: Logs) -> Iterator[PartitionTransaction]:
    for partition, log in logs.items():
        headers = [header for header, _ in log if isinstance(header, RecordBatchHeader)]
        closed, left = fold(log, partition, gaps=merge_copies(headers).gaps)
        yield from (*closed, *left.values())


def outcomes(entries: list[CoordinatorRecord], logs: Logs, known: ResolveContext) -> Outcomes:
    """The outcome of each batch of a transaction that spans a gap."""
    resolved = resolve_all(entries, parts_with_gaps(logs), known)
    spanning = [replace(txn, parts=tuple(part for part in txn.parts if part.gap)) for txn in resolved]
    return outcome_of_batches(spanning, logs)


@random_histories
@given(steps=STEPS, clients=CLIENTS, skew=SKEWS, lost=LOST)
def test_missing_batches_give_no_wrong_outcome(
    steps: list[Step], clients: tuple[TransactionVersion, ...], skew: int, lost: Lost
) -> None:
    cluster = run(steps, clients)
    found = outcomes(cluster.entries, without(cluster.logs, lost), context(cluster, skew))
    assert not wrong(found, cluster)


@random_histories
@given(steps=STEPS, clients=CLIENTS, lost=LOST)
@example(steps=MARKER_AND_NEXT_BATCH, clients=NEW, lost=[(1, 3), (1, 4)])
def test_missing_batches_without_a_coordinator_log_give_no_wrong_outcome(
    steps: list[Step], clients: tuple[TransactionVersion, ...], lost: Lost
) -> None:
    cluster = run(steps, clients)
    known = replace(context(cluster, 0), has_coordinator_log=False)
    assert not wrong(outcomes([], without(cluster.logs, lost), known), cluster)


@random_histories
@given(steps=STEPS, clients=CLIENTS, skew=SKEWS, lost=LOST, end=st.integers(1, 120))
def test_missing_batches_and_a_coordinator_log_that_ends_early_give_no_wrong_outcome(
    steps: list[Step], clients: tuple[TransactionVersion, ...], skew: int, lost: Lost, end: int
) -> None:
    cluster = run(steps, clients)
    entries = cluster.entries[:end]
    known = replace(context(cluster, skew), now=cluster.written_at[len(entries) - 1])
    assert not wrong(outcomes(entries, without(cluster.logs, lost), known), cluster)


@random_histories
@given(steps=STEPS, clients=st.sampled_from((OLD, NEW)), skew=SKEWS, lost=LOST, end=st.integers(0, 120))
def test_missing_batches_and_a_compacted_coordinator_log_give_no_wrong_outcome(
    steps: list[Step], clients: tuple[TransactionVersion, ...], skew: int, lost: Lost, end: int
) -> None:
    # As where partitions are torn: fences of older clients and "lose" can mislead there.
    version = TransactionVersion.TV2 if clients is NEW else TransactionVersion.TV1
    kept = steps if clients is NEW else [step for step in steps if step[0] != "lose"]
    cluster = run(kept, clients, version)
    left = compacted(cluster.entries, end)
    assert not wrong(outcomes(left, without(cluster.logs, lost), context(cluster, skew)), cluster)


@random_histories
@given(steps=STEPS, skew=SKEWS, lost=LOST)
def test_tv2_transactions_in_one_epoch_are_decided_across_a_gap(
    steps: list[Step], skew: int, lost: Lost
) -> None:
    cluster = run(steps, NEW)
    logs = without(cluster.logs, lost)
    resolved = resolve_all(cluster.entries, parts_with_gaps(logs), context(cluster, skew))
    for txn in resolved:
        if txn.outcome is Outcome.AMBIGUOUS:
            assert any(map(is_mixed, txn.parts))


def is_mixed(part: PartitionTransaction) -> bool:
    """It has several epochs, be it that of a marker which another transaction left."""
    return len(part.epochs) > 1 or (
        part.marker is not None and part.marker.producer_epoch > part.epochs[-1] + 1
    )
