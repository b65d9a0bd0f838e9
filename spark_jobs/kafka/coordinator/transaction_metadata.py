"""One transactional id at its coordinator: state, legal transitions, answers to EndTxn (facts §3.2-3.3).

Every transition is a function from the old value to the new one; the caller decides when a transition is due.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from spark_jobs.kafka.errors import KafkaError, OnceoverError
from spark_jobs.kafka.formats.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from spark_jobs.kafka.formats.transaction_state import (
    TWO_PHASE_COMMIT_TIMEOUT_MS,
    TransactionLogValue,
    TransactionState,
    group_by_topic,
)
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.topic_partition import TopicPartition

MAX_PRODUCER_EPOCH = 2**15 - 1

_IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
VALID_PREVIOUS_STATES: dict[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _IDLE | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _IDLE,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}


class IllegalTransition(OnceoverError):
    """A transition that a coordinator never makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """One transactional id; times in milliseconds, -1 where there is none.

    `pending_state` is set while a transition is decided but not yet in the log. `last_producer_epoch` lives
    in memory only: a coordinator that reloads has -1.
    """

    transactional_id: str
    producer_id: int
    transaction_timeout_ms: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    state: TransactionState = TransactionState.EMPTY
    topic_partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = NO_TIMESTAMP
    last_update_timestamp_ms: int = NO_TIMESTAMP
    client_transaction_version: int = 0
    pending_state: TransactionState | None = None

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_epoch_exhausted(self.producer_epoch)

    @property
    def is_two_phase_commit(self) -> bool:
        return self.transaction_timeout_ms == TWO_PHASE_COMMIT_TIMEOUT_MS

    @property
    def is_idle(self) -> bool:
        """No transaction is running or being decided."""
        return self.state in _IDLE


def is_epoch_exhausted(producer_epoch: int) -> bool:
    """A client never gets epoch 32767, so one epoch is always left to fence with."""
    return producer_epoch >= MAX_PRODUCER_EPOCH - 1


def increment_producer_epoch(
    metadata: TransactionMetadata, *, timeout_ms: int, expected_epoch: int | None, now: int
) -> TransactionMetadata | KafkaError:
    """InitProducerId on an idle id: the next epoch, or the current one again for a retry (facts §3.4)."""
    if metadata.is_epoch_exhausted:
        raise IllegalTransition(
            f"producer id {metadata.producer_id} has no epoch after {metadata.producer_epoch}"
        )
    current, last = metadata.producer_epoch, metadata.last_producer_epoch
    if expected_epoch is None:
        next_epoch, next_last = current + 1, NO_PRODUCER_EPOCH
    elif current in {NO_PRODUCER_EPOCH, expected_epoch}:
        next_epoch, next_last = current + 1, current
    elif expected_epoch == last:
        next_epoch, next_last = current, last
    else:
        return KafkaError.PRODUCER_FENCED
    return _empty(
        metadata, producer_epoch=next_epoch, last_producer_epoch=next_last, timeout_ms=timeout_ms, now=now
    )


def rotate_producer_id(
    metadata: TransactionMetadata, *, producer_id: int, timeout_ms: int, record_last_epoch: bool, now: int
) -> TransactionMetadata:
    """InitProducerId when every epoch of the producer id is used: a new id, epoch 0."""
    last = metadata.producer_epoch if record_last_epoch else NO_PRODUCER_EPOCH
    return _empty(
        metadata,
        producer_id=producer_id,
        producer_epoch=0,
        last_producer_epoch=last,
        timeout_ms=timeout_ms,
        now=now,
    )


def add_partitions(
    metadata: TransactionMetadata, partitions: frozenset[TopicPartition], *, client_version: int, now: int
) -> TransactionMetadata:
    """The first partition opens the transaction; later ones join it and keep its start."""
    return _transit(
        metadata,
        TransactionState.ONGOING,
        topic_partitions=metadata.topic_partitions | partitions,
        start_timestamp_ms=now if metadata.is_idle else metadata.start_timestamp_ms,
        last_update_timestamp_ms=now,
        client_transaction_version=client_version,
    )


def prepare_end(
    metadata: TransactionMetadata,
    state: TransactionState,
    *,
    version: TransactionVersion,
    next_producer_id: int = NO_PRODUCER_ID,
    now: int,
) -> TransactionMetadata:
    """To PrepareCommit or PrepareAbort; TV2 bumps the epoch, and may end an Empty id (facts §3.2)."""
    changes: dict[str, Any] = {"client_transaction_version": 0}
    if version is TransactionVersion.TV2:
        # At 32767 only an abort is possible; it keeps the epoch, so that the transaction can end
        # (KAFKA-20090).
        bumped = min(metadata.producer_epoch + 1, MAX_PRODUCER_EPOCH)
        changes = {
            "producer_epoch": bumped,
            "last_producer_epoch": metadata.producer_epoch,
            "client_transaction_version": 2,
        }
    elif metadata.is_idle:
        raise IllegalTransition(
            f"{metadata.transactional_id}: {state.label} from {metadata.state.label} needs TV2"
        )
    return _transit(
        metadata,
        state,
        next_producer_id=next_producer_id,
        start_timestamp_ms=now if metadata.is_idle else metadata.start_timestamp_ms,
        last_update_timestamp_ms=now,
        **changes,
    )


def fence(
    metadata: TransactionMetadata,
    *,
    version: TransactionVersion,
    next_producer_id: int = NO_PRODUCER_ID,
    now: int,
) -> TransactionMetadata:
    """Abort an ongoing transaction and fence its producer with the next epoch.

    `version` is the cluster's feature level, for any client version (facts §8 trap 43).
    """
    if version is TransactionVersion.TV2:
        return prepare_end(
            metadata,
            TransactionState.PREPARE_ABORT,
            version=version,
            next_producer_id=next_producer_id,
            now=now,
        )
    if metadata.producer_epoch == MAX_PRODUCER_EPOCH:
        raise IllegalTransition(f"{metadata.transactional_id}: no epoch left to fence with")
    bumped = replace(
        metadata, producer_epoch=metadata.producer_epoch + 1, last_producer_epoch=NO_PRODUCER_EPOCH
    )
    return prepare_end(bumped, TransactionState.PREPARE_ABORT, version=version, now=now)


def complete(metadata: TransactionMetadata, *, now: int) -> TransactionMetadata:
    """Every marker is written; a producer id prepared for rotation takes over at epoch 0."""
    committed = metadata.state is TransactionState.PREPARE_COMMIT
    rotates = metadata.next_producer_id != NO_PRODUCER_ID
    return _transit(
        metadata,
        TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT,
        producer_id=metadata.next_producer_id if rotates else metadata.producer_id,
        producer_epoch=0 if rotates else metadata.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        topic_partitions=frozenset(),
        last_update_timestamp_ms=now,
    )


def to_value(metadata: TransactionMetadata) -> TransactionLogValue:
    """`metadata` as the log stores it."""
    empty = metadata.state is TransactionState.EMPTY
    return TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.transaction_timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None if empty else group_by_topic(metadata.topic_partitions),
        transaction_last_update_timestamp_ms=metadata.last_update_timestamp_ms,
        transaction_start_timestamp_ms=metadata.start_timestamp_ms,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        client_transaction_version=metadata.client_transaction_version,
    )


def from_value(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    """A coordinator's state after loading `value`: everything but the last producer epoch."""
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        transaction_timeout_ms=value.transaction_timeout_ms,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        state=value.transaction_status,
        topic_partitions=value.topic_partitions,
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
    )


def _empty(
    metadata: TransactionMetadata, *, timeout_ms: int, now: int, **changes: int
) -> TransactionMetadata:
    return _transit(
        metadata,
        TransactionState.EMPTY,
        transaction_timeout_ms=timeout_ms,
        topic_partitions=frozenset(),
        start_timestamp_ms=NO_TIMESTAMP,
        last_update_timestamp_ms=now,
        **changes,
    )


def _transit(metadata: TransactionMetadata, state: TransactionState, **changes: Any) -> TransactionMetadata:
    where = f"{metadata.transactional_id}: {state.label} cannot follow"
    if metadata.pending_state is not None:
        raise IllegalTransition(f"{where} pending {metadata.pending_state.label}")
    if metadata.state not in VALID_PREVIOUS_STATES[state]:
        raise IllegalTransition(f"{where} {metadata.state.label}")
    # The log names the producer id before this transition, so only a rotation makes the two differ.
    return replace(metadata, state=state, previous_producer_id=metadata.producer_id, **changes)


class TransactionResult(StrEnum):
    """How a transaction ends, and the type of its markers."""

    COMMIT = "commit"
    ABORT = "abort"


EndTxnAction = TransactionState | KafkaError
"""The state to prepare, or the error to answer at once; NONE confirms a transaction that has ended."""

_EMPTY, _ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
_PREPARE_COMMIT, _PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
_COMPLETE_COMMIT, _COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
_COMMIT, _ABORT = TransactionResult.COMMIT, TransactionResult.ABORT
_OK = KafkaError.NONE
_BUSY = KafkaError.CONCURRENT_TRANSACTIONS
_INVALID = KafkaError.INVALID_TXN_STATE
_FENCED = KafkaError.PRODUCER_FENCED

TV1_ACTIONS: dict[tuple[TransactionState, TransactionResult], EndTxnAction] = {
    (_EMPTY, _COMMIT): _INVALID,
    (_EMPTY, _ABORT): _INVALID,
    (_ONGOING, _COMMIT): _PREPARE_COMMIT,
    (_ONGOING, _ABORT): _PREPARE_ABORT,
    (_PREPARE_COMMIT, _COMMIT): _BUSY,
    (_PREPARE_COMMIT, _ABORT): _INVALID,
    (_PREPARE_ABORT, _COMMIT): _INVALID,
    (_PREPARE_ABORT, _ABORT): _BUSY,
    (_COMPLETE_COMMIT, _COMMIT): _OK,
    (_COMPLETE_COMMIT, _ABORT): _INVALID,
    (_COMPLETE_ABORT, _COMMIT): _INVALID,
    (_COMPLETE_ABORT, _ABORT): _OK,
}
"""Answers before TV2, for the coordinator's epoch; any other epoch is fenced."""

TV2_ACTIONS: dict[tuple[TransactionState, TransactionResult], tuple[EndTxnAction, EndTxnAction]] = {
    (_EMPTY, _COMMIT): (_INVALID, _FENCED),
    (_EMPTY, _ABORT): (_PREPARE_ABORT, _FENCED),
    (_ONGOING, _COMMIT): (_PREPARE_COMMIT, _FENCED),
    (_ONGOING, _ABORT): (_PREPARE_ABORT, _FENCED),
    (_PREPARE_COMMIT, _COMMIT): (_FENCED, _BUSY),
    (_PREPARE_COMMIT, _ABORT): (_FENCED, _INVALID),
    (_PREPARE_ABORT, _COMMIT): (_FENCED, _INVALID),
    (_PREPARE_ABORT, _ABORT): (_FENCED, _BUSY),
    (_COMPLETE_COMMIT, _COMMIT): (_INVALID, _OK),
    (_COMPLETE_COMMIT, _ABORT): (_PREPARE_ABORT, _INVALID),
    (_COMPLETE_ABORT, _COMMIT): (_INVALID, _INVALID),
    (_COMPLETE_ABORT, _ABORT): (_PREPARE_ABORT, _OK),
}
"""Answers of TV2, for the coordinator's epoch and for the one before it: a retry whose answer got lost."""


def end_txn_action(
    metadata: TransactionMetadata,
    *,
    producer_id: int,
    producer_epoch: int,
    result: TransactionResult,
    version: TransactionVersion,
) -> EndTxnAction:
    """The answer to a client's EndTxn in the id's current state (facts §3.3)."""
    if version is TransactionVersion.TV2:
        return _tv2_action(metadata, producer_id, producer_epoch, result)
    if metadata.producer_id != producer_id:
        return KafkaError.INVALID_PRODUCER_ID_MAPPING
    if metadata.producer_epoch != producer_epoch:
        return KafkaError.PRODUCER_FENCED
    if metadata.pending_state is not None:
        return KafkaError.CONCURRENT_TRANSACTIONS
    return TV1_ACTIONS[metadata.state, result]


def _tv2_action(
    metadata: TransactionMetadata, producer_id: int, producer_epoch: int, result: TransactionResult
) -> EndTxnAction:
    if metadata.pending_state is not None:
        return KafkaError.CONCURRENT_TRANSACTIONS
    overflow_retry = _is_retry_after_rotation(metadata, producer_id, producer_epoch)
    if metadata.producer_id != producer_id and not overflow_retry:
        return KafkaError.INVALID_PRODUCER_ID_MAPPING
    on_current, on_retry = TV2_ACTIONS[metadata.state, result]
    if overflow_retry or metadata.producer_epoch == producer_epoch + 1:
        return on_retry
    return on_current if metadata.producer_epoch == producer_epoch else KafkaError.PRODUCER_FENCED


def _is_retry_after_rotation(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """The client still has the producer id whose epochs ran out when the transaction ended."""
    return (
        metadata.state.is_complete
        and metadata.previous_producer_id == producer_id
        and producer_epoch == MAX_PRODUCER_EPOCH - 1
        and metadata.producer_epoch == 0
    )
