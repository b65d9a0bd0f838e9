"""Transactions on topics that were deleted and recreated: the coordinator names a topic, not its log.

A transaction is in the log that holds a part of it, by the rules that find its part on any partition. Where
no log holds one, the newest is meant: its copy may not reach that far yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from spark_jobs.kafka.coordinator.timeline import CoordinatorTransaction
from spark_jobs.kafka.topic_partition import TopicPartition, log_number, topic_of
from spark_jobs.kafka.transactions.matching import candidates, match_partition
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction
from spark_jobs.kafka.transactions.resolve import ResolveContext

Logs = Mapping[TopicPartition, tuple[TopicPartition, ...]]
"""By what Kafka calls a partition its logs, oldest first."""


def later_logs(partitions: Iterable[TopicPartition]) -> Logs:
    """The logs of partitions whose topic was recreated."""
    found: dict[TopicPartition, list[TopicPartition]] = {}
    for partition in partitions:
        found.setdefault(partition.in_kafka, []).append(partition)
    return {
        partition: tuple(sorted(logs, key=lambda log: log_number(log.topic)))
        for partition, logs in found.items()
        if logs != [partition]
    }


def deleted_logs(partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
    """Partitions of logs that a newer log of their topic has replaced: no broker has them any more."""
    known = frozenset(partitions)
    newest: dict[str, str] = {}
    for log in sorted({each.topic for each in known}, key=log_number):
        newest[topic_of(log)] = log
    return frozenset(each for each in known if newest[topic_of(each.topic)] != each.topic)


def of_logs(
    transactions: Sequence[CoordinatorTransaction],
    parts: Iterable[PartitionTransaction],
    logs: Logs,
    context: ResolveContext,
) -> list[CoordinatorTransaction]:
    """`transactions` of one producer id, each with the logs that it is in instead of topics' names."""
    if not any(each in logs for txn in transactions for each in _listed(txn)):
        return list(transactions)
    in_any = [
        _in(txn, [log for each in _listed(txn) for log in logs.get(each, (each,))]) for txn in transactions
    ]
    held = _held(parts, in_any, logs, context)
    return [
        _in(txn, [log for each in _listed(txn) for log in _logs_of(index, each, logs, held)])
        for index, txn in enumerate(transactions)
    ]


def _held(
    parts: Iterable[PartitionTransaction],
    transactions: Iterable[CoordinatorTransaction],
    logs: Logs,
    context: ResolveContext,
) -> set[tuple[int, TopicPartition]]:
    """Which transaction, by its index, has a part in which log."""
    known = candidates(transactions, clock_skew_ms=context.clock_skew_ms)
    by_log: dict[TopicPartition, list[PartitionTransaction]] = {}
    for part in parts:
        if part.topic_partition.in_kafka in logs:
            by_log.setdefault(part.topic_partition, []).append(part)
    return {(index, log) for log, own in by_log.items() for index in match_partition(own, known)}


def _logs_of(
    index: int, partition: TopicPartition, logs: Logs, held: set[tuple[int, TopicPartition]]
) -> Sequence[TopicPartition]:
    found = logs.get(partition, (partition,))
    return [log for log in found if (index, log) in held] or found[-1:]


def _listed(txn: CoordinatorTransaction) -> Iterable[TopicPartition]:
    return txn.topic_partitions or ()


def _in(txn: CoordinatorTransaction, partitions: Iterable[TopicPartition]) -> CoordinatorTransaction:
    if txn.topic_partitions is None:
        return txn
    return replace(txn, topic_partitions=frozenset(partitions))
