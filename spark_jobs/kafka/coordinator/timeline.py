"""The transactions of one transactional id that the coordinator's log still shows (facts §3.1-3.2).

The log is compacted: older transactions often have no record left, and the last one may have only its end.
What no record shows is unknown (`None`), never guessed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from spark_jobs.kafka.coordinator.history import (
    CoordinatorEntry,
    CoordinatorRecord,
    CoordinatorState,
    UnreadableRecord,
)
from spark_jobs.kafka.coordinator.transaction_metadata import MAX_PRODUCER_EPOCH, TransactionResult
from spark_jobs.kafka.formats.record_batch import NO_PRODUCER_ID
from spark_jobs.kafka.formats.transaction_state import (
    TWO_PHASE_COMMIT_TIMEOUT_MS,
    TransactionLogValue,
    TransactionState,
)
from spark_jobs.kafka.topic_partition import TopicPartition

RESULT_OF_STATE = {
    TransactionState.PREPARE_COMMIT: TransactionResult.COMMIT,
    TransactionState.COMPLETE_COMMIT: TransactionResult.COMMIT,
    TransactionState.PREPARE_ABORT: TransactionResult.ABORT,
    TransactionState.COMPLETE_ABORT: TransactionResult.ABORT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorTransaction:
    """One transaction as the coordinator recorded it; times in milliseconds of the coordinator's clock.

    `producer_epoch` is the epoch of its data, `marker_epoch` that of its markers; `is_epoch_bumped` if no
    other transaction has that marker epoch. `topic_partitions` is None if the records that listed them are
    gone, `end_timestamp_ms` is when its end was decided. `is_cut`: the id continued, or became unreadable,
    without a record of this transaction's end. `has_known_past`: the id's state before this transaction is
    recorded too.
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
        """A record proves an action of the client: it began the transaction, or committed it."""
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
        """Whether the partition is in the transaction, or may be because its partitions are unknown."""
        return self.topic_partitions is None or topic_partition in self.topic_partitions

    def is_timed_out(self, now: int) -> bool:
        """Ongoing past its timeout; never with two-phase commit (facts §3.6)."""
        late = self.start_timestamp_ms + self.transaction_timeout_ms < now
        return self.state is TransactionState.ONGOING and not self.is_two_phase_commit and late


_RANK = {TransactionState.ONGOING: 0, **dict.fromkeys(RESULT_OF_STATE, 1)} | {
    TransactionState.COMPLETE_COMMIT: 2,
    TransactionState.COMPLETE_ABORT: 2,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class IdTimeline:
    """One id: its transactions in order, the producer ids it had, its partition of the log."""

    transactional_id: str
    transactions: tuple[CoordinatorTransaction, ...] = ()
    producer_ids: tuple[int, ...] = ()
    current: CoordinatorEntry | None = None


def timeline(
    transactional_id: str, entries: Iterable[CoordinatorEntry], *, before: IdTimeline | None = None
) -> IdTimeline:
    """The timeline of one id from its entries in offset order; those that `before` has seen are skipped."""
    known = before or IdTimeline(transactional_id=transactional_id)
    transactions, producer_ids, current = list(known.transactions), known.producer_ids, known.current
    for entry in entries:
        if current is not None and entry.offset <= current.offset:
            continue
        value = entry.value if isinstance(entry, CoordinatorRecord) else None
        _record(transactions, value, entry, has_known_past=isinstance(current, CoordinatorRecord))
        current = entry
        producer_ids = _with_producer_ids(producer_ids, value)
    return IdTimeline(
        transactional_id=transactional_id,
        transactions=_with_client_versions(transactions),
        producer_ids=producer_ids,
        current=current,
    )


def timelines(state: CoordinatorState) -> dict[str, IdTimeline]:
    """The timeline of every id of a folded partition."""
    return {i: timeline(i, entries) for i, entries in state.history.items()}


def is_unreadable(known: IdTimeline) -> bool:
    """The id's last record could not be read, so its state after that record is unknown."""
    return isinstance(known.current, UnreadableRecord)


def _record(
    transactions: list[CoordinatorTransaction],
    value: TransactionLogValue | None,
    entry: CoordinatorEntry,
    *,
    has_known_past: bool,
) -> None:
    """Applies the id's next entry to `transactions`."""
    last = transactions[-1] if transactions else None
    if last is not None and value is not None and _continues(last, value):
        transactions[-1] = _continue(last, value, entry)
        return
    if last is not None and last.result is None:
        # The id continued: this log will never show the end of what it has not decided yet.
        transactions[-1] = replace(last, is_cut=True)
    if value is not None and value.transaction_status in _RANK:
        transactions.append(_begin(value, entry, has_known_past=has_known_past))


def _with_client_versions(transactions: list[CoordinatorTransaction]) -> tuple[CoordinatorTransaction, ...]:
    """A lone abort may be a fence, which is TV2 for any client version: its other transactions decide."""
    spoken = [txn.client_transaction_version for txn in transactions if txn.is_clients_own]
    if not spoken:
        return tuple(transactions)
    return tuple(
        txn if txn.is_clients_own else replace(txn, client_transaction_version=spoken[0])
        for txn in transactions
    )


def _continues(txn: CoordinatorTransaction, value: TransactionLogValue) -> bool:
    if txn.start_timestamp_ms != value.transaction_start_timestamp_ms:
        return False
    status = value.transaction_status
    was, becomes = _RANK[txn.state], _RANK.get(status, -1)
    if becomes < was or was == becomes != 0:
        return False
    if txn.result is not None and txn.result is not RESULT_OF_STATE.get(status):
        return False
    rotated = status.is_complete and value.producer_epoch == 0
    return txn.producer_id in (value.producer_id, value.previous_producer_id) or rotated


def _continue(
    txn: CoordinatorTransaction, value: TransactionLogValue, entry: CoordinatorEntry
) -> CoordinatorTransaction:
    status, last_update_ms = value.transaction_status, value.transaction_last_update_timestamp_ms
    decided_now = txn.result is None and status is not TransactionState.ONGOING
    # Spelled out: `replace` takes four times as long, and this is done for every record of a run.
    return CoordinatorTransaction(
        transactional_id=txn.transactional_id,
        producer_id=txn.producer_id,
        producer_epoch=txn.producer_epoch,
        marker_epoch=_marker_epoch(value, txn.producer_id) if decided_now else txn.marker_epoch,
        transaction_timeout_ms=txn.transaction_timeout_ms,
        start_timestamp_ms=txn.start_timestamp_ms,
        last_update_timestamp_ms=last_update_ms,
        end_timestamp_ms=last_update_ms if decided_now else txn.end_timestamp_ms,
        state=status,
        topic_partitions=txn.topic_partitions if status.is_complete else value.topic_partitions,
        client_transaction_version=txn.client_transaction_version,
        is_epoch_bumped=_is_bumped(value, txn.producer_epoch) if decided_now else txn.is_epoch_bumped,
        is_cut=False,
        has_known_past=txn.has_known_past,
        first_record_offset=txn.first_record_offset,
        last_record_offset=entry.offset,
        coordinator_epochs=_with_epoch(txn.coordinator_epochs, entry.coordinator_epoch),
    )


def _begin(
    value: TransactionLogValue, entry: CoordinatorEntry, *, has_known_past: bool
) -> CoordinatorTransaction:
    """A transaction whose first remaining record is `value`."""
    status = value.transaction_status
    ongoing = status is TransactionState.ONGOING
    producer_id = _producer_of(value)
    return CoordinatorTransaction(
        transactional_id=entry.transactional_id,
        producer_id=producer_id,
        producer_epoch=value.producer_epoch if ongoing else None,
        marker_epoch=None if ongoing else _marker_epoch(value, producer_id),
        transaction_timeout_ms=value.transaction_timeout_ms,
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        end_timestamp_ms=None if ongoing else value.transaction_last_update_timestamp_ms,
        state=status,
        topic_partitions=None if status.is_complete else value.topic_partitions,
        client_transaction_version=value.client_transaction_version,
        is_epoch_bumped=not ongoing and _is_bumped(value, None),
        is_cut=False,
        has_known_past=has_known_past,
        first_record_offset=entry.offset,
        last_record_offset=entry.offset,
        coordinator_epochs=(entry.coordinator_epoch,),
    )


def _producer_of(value: TransactionLogValue) -> int:
    """The transaction's producer id: the end of one that used the last epoch rotates to a new producer id."""
    if (
        not value.transaction_status.is_complete
        or value.producer_epoch
        or value.client_transaction_version < 2
    ):
        return value.producer_id
    # Epoch 0 after a TV2 bump can only be a rotation; brokers before 4.3 do not record the previous producer
    # id.
    rotated = value.previous_producer_id not in {NO_PRODUCER_ID, value.producer_id}
    return value.previous_producer_id if rotated else NO_PRODUCER_ID


def _marker_epoch(value: TransactionLogValue, producer_id: int) -> int:
    return value.producer_epoch if value.producer_id == producer_id else MAX_PRODUCER_EPOCH


def _is_bumped(value: TransactionLogValue, producer_epoch: int | None) -> bool:
    """Ended with an epoch of its own, by TV2 or by a fence."""
    return value.client_transaction_version >= 2 or producer_epoch not in {None, value.producer_epoch}


def _with_epoch(epochs: tuple[int, ...], epoch: int) -> tuple[int, ...]:
    return epochs if epoch in epochs else (*epochs, epoch)


def _with_producer_ids(known: tuple[int, ...], value: TransactionLogValue | None) -> tuple[int, ...]:
    if value is None:
        return known
    mentioned = (value.previous_producer_id, value.producer_id, value.next_producer_id)
    new = [p for p in mentioned if p != NO_PRODUCER_ID and p not in known]
    return (*known, *dict.fromkeys(new)) if new else known
