"""From logs to outcomes: the steps around `resolve` that a run does on grouped rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from spark_jobs.kafka.coordinator.history import CoordinatorEntry, CoordinatorRecord
from spark_jobs.kafka.coordinator.history import fold as fold_coordinator
from spark_jobs.kafka.coordinator.timeline import CoordinatorTransaction, is_unreadable, timelines
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.hanging import CopyReach, appended_by
from spark_jobs.kafka.transactions.outcome import Outcome, ResolvedTransaction
from spark_jobs.kafka.transactions.partition_transactions import LogBatch, PartitionTransaction, fold
from spark_jobs.kafka.transactions.resolve import ProducerTransactions, ResolveContext, resolve


def parts_of(logs: Mapping[TopicPartition, Sequence[LogBatch]]) -> list[PartitionTransaction]:
    """The transactions of every partition, each partition's in offset order."""
    parts: list[PartitionTransaction] = []
    for partition, log in logs.items():
        closed, still_open = fold(log, partition)
        markers = [each.marker for each in closed if each.marker is not None]
        known = (replace(each, appended_by=appended_by(each, markers)) for each in still_open.values())
        parts += (*closed, *known)
    return parts


def reach_of(
    entries: Iterable[CoordinatorEntry],
    logs: Mapping[TopicPartition, Sequence[LogBatch]],
    *,
    clock_skew_ms: int,
) -> CopyReach:
    """How far copies reach whose coordinator's log is one partition with these entries."""
    values = (entry.value for entry in entries if isinstance(entry, CoordinatorRecord))
    recorded = [value.transaction_last_update_timestamp_ms for value in values if value is not None]
    marked = {p: [header.max_timestamp for header, marker in log if marker] for p, log in logs.items()}
    return CopyReach(
        recorded_until={0: max(recorded)} if recorded else {},
        marked_until={partition: max(times) for partition, times in marked.items() if times},
        state_partitions=1,
        clock_skew_ms=clock_skew_ms,
    )


def batches_of(logs: Mapping[TopicPartition, Sequence[LogBatch]]) -> list[PartitionTransaction]:
    """Every transactional batch by itself, as a capture has them."""
    return [
        txn
        for partition, log in logs.items()
        for batch in log
        if batch[1] is None
        for txn in fold([batch], partition)[1].values()
    ]


def resolve_all(
    entries: Iterable[CoordinatorEntry], parts: Iterable[PartitionTransaction], context: ResolveContext
) -> list[ResolvedTransaction]:
    """Every transaction of every producer id; the coordinator's log is partition 0."""
    coordinator: dict[int, list[CoordinatorTransaction]] = {}
    owners: dict[int, str] = {}
    unreadable: set[int] = set()
    for transactional_id, known in timelines(fold_coordinator(entries)).items():
        owners |= dict.fromkeys(known.producer_ids, transactional_id)
        unreadable |= set(known.producer_ids) if is_unreadable(known) else set()
        for txn in known.transactions:
            coordinator.setdefault(txn.producer_id, []).append(txn)
    found: dict[int, list[PartitionTransaction]] = {}
    for part in parts:
        found.setdefault(part.producer_id, []).append(part)
    return [
        resolved
        for producer_id in sorted(found.keys() | coordinator.keys())
        for resolved in resolve(
            ProducerTransactions(
                producer_id=producer_id,
                transactional_id=owners.get(producer_id),
                coordinator_partition=0 if producer_id in owners else None,
                parts=tuple(found.get(producer_id, ())),
                coordinator=tuple(coordinator.get(producer_id, ())),
                is_unreadable=producer_id in unreadable,
            ),
            context,
        )
    ]


def outcome_of_batches(
    resolved: Iterable[ResolvedTransaction], logs: Mapping[TopicPartition, Sequence[LogBatch]]
) -> dict[tuple[TopicPartition, int], Outcome]:
    """The outcome of each data batch, through the part that it belongs to."""
    outcomes: dict[tuple[TopicPartition, int], Outcome] = {}
    for txn in resolved:
        for part in txn.parts:
            for header, marker in logs[part.topic_partition]:
                inside = part.first_offset <= header.last_offset <= part.last_offset
                if inside and marker is None and header.producer_id == part.producer_id and part.batch_count:
                    key = (part.topic_partition, header.last_offset)
                    assert key not in outcomes, f"{key} has two outcomes"
                    outcomes[key] = txn.outcome
    return outcomes
