"""The producer state of a partition (facts §2.1): values only, the rules are in `admission`."""

from dataclasses import dataclass, field
from enum import StrEnum

from spark_jobs.kafka.formats.record_batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from spark_jobs.kafka.producers.sequence import decrement_sequence

NUM_BATCHES_TO_RETAIN = 5
NO_COORDINATOR_EPOCH = -1
NO_OFFSET = -1


class AppendOrigin(StrEnum):
    """The origin of an append decides which rules apply to it (facts §2.4-2.9)."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class TransactionVersion(StrEnum):
    """The `transaction.version` feature level (facts §0); never stored in a log."""

    TV0 = "TV0"
    TV1 = "TV1"
    TV2 = "TV2"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMetadata:
    """One remembered batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStateEntry:
    """One producer on one partition; `batches` holds the newest five of one epoch, oldest first."""

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = NO_TIMESTAMP
    current_txn_first_offset: int | None = None
    batches: tuple[BatchMetadata, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def first_sequence(self) -> int:
        return self.batches[0].first_sequence if self.batches else NO_SEQUENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer as DescribeProducers lists it (facts §3.9); -1 where there is nothing."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


def active_producer(entry: ProducerStateEntry) -> ActiveProducer:
    """`entry` as a broker describes it to an administrator (facts §9 row 95); no step uses it."""
    first_offset = entry.current_txn_first_offset
    return ActiveProducer(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=NO_OFFSET if first_offset is None else first_offset,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnMetadata:
    """A transaction that is open on a partition, or decided there but not yet replicated."""

    producer_id: int
    first_offset: int
    last_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedTxn:
    """A marker closed an open transaction; `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationStateEntry:
    """A transactional append that is verified with the coordinator (facts §2.5); in memory only.

    `timestamp` is its creation in milliseconds; it expires like a producer.
    """

    guard: int
    lowest_sequence: int
    producer_epoch: int
    supports_epoch_bump: bool
    timestamp: int = NO_TIMESTAMP


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStates:
    """All producers of one partition, up to (excluding) `end_offset`."""

    producers: dict[int, ProducerStateEntry] = field(default_factory=dict)
    end_offset: int = 0
