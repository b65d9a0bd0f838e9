"""Transactions that nothing will end: what they hold back, how to abort them (facts §3.9)."""

from collections.abc import Iterable
from dataclasses import dataclass
from shlex import quote

from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.topic_partition import TopicPartition

MAX_TRANSACTION_TIMEOUT_MS = 900_000
"""Kafka's own tool looks only at transactions older than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HangingTransaction:
    """A transaction left open on one partition.

    `held_back` is how many offsets a read_committed consumer of the partition cannot reach because of it, 0
    if an older transaction is open before it.
    """

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    start_offset: int
    held_back: int

    def advice(self, transactional_id: str | None, bootstrap_server: str = "localhost:9092") -> str:
        """How an operator ends it: what to check first, the command, and what it destroys."""
        tool = f"kafka-transactions.sh --bootstrap-server {bootstrap_server}"
        topic, partition = self.topic_partition.in_kafka
        place = f"--topic {quote(topic)} --partition {partition}"
        check = (
            f"`{tool} describe-producers {place}` must still show producer {self.producer_id}, epoch "
            f"{self.producer_epoch}, with CurrentTransactionStartOffset {self.start_offset}"
        )
        if transactional_id is not None:
            check += (
                f", and `{tool} describe --transactional-id {quote(transactional_id)}` must not show it as "
                f"Ongoing with partition {self.topic_partition.in_kafka}"
            )
        return (
            f"check first: {check}; only then run `{tool} abort {place} --start-offset {self.start_offset}`, "
            "which discards its records for good, even if a live producer commits them afterwards"
        )


def hanging_transaction(
    part: PartitionTransaction, *, last_stable_offset: int, high_watermark: int
) -> HangingTransaction:
    """An open `part` as an operator sees it."""
    is_oldest = part.first_offset <= last_stable_offset
    return HangingTransaction(
        topic_partition=part.topic_partition,
        producer_id=part.producer_id,
        producer_epoch=part.producer_epoch,
        start_offset=part.first_offset,
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
