"""Requests to the transaction coordinator, read from their frames (Kafka's protocol, header included)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.primitives import Reader
from spark_jobs.kafka.topic_partition import TopicPartition

T = TypeVar("T")

INIT_PRODUCER_ID = 22
ADD_PARTITIONS_TO_TXN = 24
END_TXN = 26
FLEXIBLE_SINCE = {INIT_PRODUCER_ID: 2, ADD_PARTITIONS_TO_TXN: 3, END_TXN: 3}
EXPECTED_EPOCH_SINCE = 3
"""From this version on InitProducerId may have the producer id and epoch of the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdRequest:
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    topic_partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnRequest:
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


class RequestReader(Reader):
    """A reader that knows whether its request's version is a flexible one."""

    __slots__ = ("api_key", "api_version", "flexible")

    def __init__(self, frame: bytes) -> None:
        super().__init__(frame, error=CorruptData, source="request")
        self.api_key, self.api_version = self.read_int16(), self.read_int16()
        self.flexible = self.api_version >= FLEXIBLE_SINCE[self.api_key]
        self.read_int32()  # correlation id
        self.read_nullable_string()  # client id, never compact
        self.end_struct()

    def text(self) -> str:
        return self.read_compact_string() if self.flexible else self.read_string()

    def nullable_text(self) -> str | None:
        return self.read_compact_nullable_string() if self.flexible else self.read_nullable_string()

    def array(self, read_item: Callable[[], T]) -> tuple[T, ...]:
        count = self.read_unsigned_varint() - 1 if self.flexible else self.read_int32()
        return tuple(read_item() for _ in range(count))

    def end_struct(self) -> None:
        """Skips the tagged fields that end a flexible struct; none of these requests uses one."""
        if self.flexible:
            self.read_tagged_fields()


def read_init_producer_id(frame: bytes) -> InitProducerIdRequest:
    reader = RequestReader(frame)
    transactional_id, timeout = reader.nullable_text(), reader.read_int32()
    expects = reader.api_version >= EXPECTED_EPOCH_SINCE
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout,
        producer_id=reader.read_int64() if expects else -1,
        producer_epoch=reader.read_int16() if expects else -1,
    )


def read_add_partitions_to_txn(frame: bytes) -> AddPartitionsToTxnRequest:
    """Versions 0 to 3, which clients use; later ones are for brokers alone."""
    reader = RequestReader(frame)

    def topic() -> tuple[TopicPartition, ...]:
        name, partitions = reader.text(), reader.array(reader.read_int32)
        reader.end_struct()
        return tuple(TopicPartition(name, partition) for partition in partitions)

    return AddPartitionsToTxnRequest(
        transactional_id=reader.text(),
        producer_id=reader.read_int64(),
        producer_epoch=reader.read_int16(),
        topic_partitions=tuple(tp for topics in reader.array(topic) for tp in topics),
    )


def read_end_txn(frame: bytes) -> EndTxnRequest:
    reader = RequestReader(frame)
    return EndTxnRequest(
        transactional_id=reader.text(),
        producer_id=reader.read_int64(),
        producer_epoch=reader.read_int16(),
        committed=reader.read_bool(),
    )
