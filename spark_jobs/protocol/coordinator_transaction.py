"""One transaction as the coordinator recorded it, whatever compaction left of it (facts §3.2)."""

from dataclasses import dataclass

from spark_jobs.protocol.coordinator_log import TWO_PHASE_COMMIT_TIMEOUT_MS, TransactionState
from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.protocol.topic_partition import TopicPartition

RESULT_OF_STATE = {
    TransactionState.PREPARE_COMMIT: TransactionResult.COMMIT,
    TransactionState.COMPLETE_COMMIT: TransactionResult.COMMIT,
    TransactionState.PREPARE_ABORT: TransactionResult.ABORT,
    TransactionState.COMPLETE_ABORT: TransactionResult.ABORT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorTransaction:
    """One transaction as the coordinator recorded it; times in milliseconds of the coordinator's clock.

    `producer_epoch` is its data's, `marker_epoch` its markers', `is_epoch_bumped` if no other transaction has
    that one. `topic_partitions` is None if the records that listed them are gone, `end_timestamp_ms` is when
    its end was decided. `is_cut` says that the id went on, or became unreadable, without a record of this
    transaction's end; `has_known_past` that the id's state before this transaction is recorded too.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int | None
    marker_epoch: int | None
    transaction_timeout_ms: int
    start_timestamp_ms: int
    last_update_timestamp_ms: int
    end_timestamp_ms: int | None
    state: TransactionState
    topic_partitions: frozenset[TopicPartition] | None
    client_transaction_version: int
    is_epoch_bumped: bool
    is_cut: bool
    has_known_past: bool
    first_record_offset: int
    last_record_offset: int
    coordinator_epochs: tuple[int, ...]

    @property
    def result(self) -> TransactionResult | None:
        """What the coordinator decided, as soon as it was prepared."""
        return RESULT_OF_STATE.get(self.state)

    @property
    def is_clients_own(self) -> bool:
        """A record shows what the client itself did: it began the transaction, or committed it."""
        return self.producer_epoch is not None or self.result is TransactionResult.COMMIT

    @property
    def names_its_epoch(self) -> bool:
        """A TV2 client uses each epoch for one transaction, so (producer id, epoch) names it."""
        return self.client_transaction_version >= 2

    @property
    def is_two_phase_commit(self) -> bool:
        return self.transaction_timeout_ms == TWO_PHASE_COMMIT_TIMEOUT_MS

    @property
    def possible_epochs(self) -> tuple[int, ...]:
        """Epochs that its data can have; two where only an abort is left that may have been a fence."""
        if self.producer_epoch is not None:
            return (self.producer_epoch,)
        marker = self.marker_epoch
        if marker is None:
            return ()
        if self.is_epoch_bumped:
            return (marker - 1,)
        return (marker,) if self.result is TransactionResult.COMMIT else (marker, marker - 1)

    def lists(self, topic_partition: TopicPartition) -> bool:
        """Whether the partition belongs to it, or may as far as is known."""
        return self.topic_partitions is None or topic_partition in self.topic_partitions

    def is_timed_out(self, now: int) -> bool:
        """Ongoing past its timeout; never with two-phase commit (facts §3.6)."""
        late = self.start_timestamp_ms + self.transaction_timeout_ms < now
        return self.state is TransactionState.ONGOING and not self.is_two_phase_commit and late
