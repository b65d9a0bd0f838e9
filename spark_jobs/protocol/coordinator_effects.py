"""What a request to the transaction coordinator leads to, as values."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from spark_jobs.protocol.coordinator_log import TransactionLogValue
from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.protocol.errors import KafkaError
from spark_jobs.protocol.producer_state import TransactionVersion
from spark_jobs.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from spark_jobs.protocol.topic_partition import TopicPartition

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionUpdate:
    """A record to append to `__transaction_state`; no value is a tombstone."""

    transactional_id: str
    value: TransactionLogValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnMarker:
    """One marker to write on each of `topic_partitions`; their leaders judge it by `transaction_version`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    result: TransactionResult
    transaction_version: TransactionVersion
    topic_partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects(Generic[R_co]):
    """What a request leads to."""

    reply: R_co
    records: tuple[TransactionUpdate, ...] = ()
    markers: tuple[TxnMarker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdReply:
    """Answer to InitProducerId and EndTxn: the identity to continue with, -1 and -1 with an error."""

    error: KafkaError
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
