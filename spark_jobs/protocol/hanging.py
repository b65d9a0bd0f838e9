"""Transactions that nobody will end: their age, what they hold back, how to abort them (facts §3.9)."""

from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.topic_partition import TopicPartition

MAX_TRANSACTION_TIMEOUT_MS = 900_000
"""Kafka's own tool looks only at transactions older than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A transaction left open on one partition.

    `age_ms` counts from its producer's last batch; `held_back` is how many offsets a read_committed consumer
    of the partition cannot reach because of it, 0 if an older transaction stands before it.
    """

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    age_ms: int
    held_back: int

    @property
    def is_late(self) -> bool:
        """Old enough that no transaction of normal timeouts can still be running."""
        return self.age_ms > MAX_TRANSACTION_TIMEOUT_MS

    def abort_command(self, bootstrap_server: str = "localhost:9092") -> str:
        """What an operator would type."""
        topic, partition = self.topic_partition
        return (
            f"kafka-transactions.sh --bootstrap-server {bootstrap_server} abort"
            f" --topic {topic} --partition {partition} --start-offset {self.start_offset}"
        )


def hanging_transaction(
    part: PartitionTransaction, *, last_stable_offset: int, high_watermark: int, now: int
) -> HangingTransaction:
    """An open `part` as an operator sees it."""
    is_oldest = part.first_offset <= last_stable_offset
    return HangingTransaction(
        topic_partition=part.topic_partition,
        producer_id=part.producer_id,
        producer_epoch=part.producer_epoch,
        start_offset=part.first_offset,
        age_ms=max(0, now - part.last_timestamp),
        held_back=high_watermark - last_stable_offset if is_oldest else 0,
    )


def find_hanging(
    open_parts: Iterable[PartitionTransaction],
    described: dict[int, frozenset[TopicPartition] | None],
    *,
    now: int,
    max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
) -> tuple[PartitionTransaction, ...]:
    """What `kafka-transactions.sh find-hanging` reports.

    `described` holds for each current producer id the partitions of its transaction, None if its id could not
    be described; neither state nor epoch is compared.
    """
    late = (p for p in open_parts if now - p.last_timestamp > max_transaction_timeout_ms)
    return tuple(p for p in late if p.topic_partition not in (described.get(p.producer_id) or frozenset()))
