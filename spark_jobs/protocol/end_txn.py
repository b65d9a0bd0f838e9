"""The answers to EndTxn, one table per transaction version (facts §3.3)."""

from enum import StrEnum

from spark_jobs.protocol.coordinator_log import TransactionState
from spark_jobs.protocol.errors import KafkaError
from spark_jobs.protocol.producer_state import TransactionVersion
from spark_jobs.protocol.transaction_metadata import MAX_PRODUCER_EPOCH, TransactionMetadata


class TransactionResult(StrEnum):
    """How a transaction ends, and which marker says so."""

    COMMIT = "commit"
    ABORT = "abort"


EndTxnAction = TransactionState | KafkaError
"""The state to prepare, or the error to answer at once; NONE confirms what has been done already."""

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
"""With the epoch equal to the coordinator's; any other epoch is fenced."""

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
"""With the coordinator's epoch, and with the one before it: a retry whose answer got lost."""


def end_txn_action(
    metadata: TransactionMetadata,
    *,
    producer_id: int,
    producer_epoch: int,
    result: TransactionResult,
    version: TransactionVersion,
) -> EndTxnAction:
    """What EndTxn of a client leads to in the id's present state."""
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
    """The client still knows the producer id whose epochs ran out when the transaction ended."""
    return (
        metadata.state.is_complete
        and metadata.previous_producer_id == producer_id
        and producer_epoch == MAX_PRODUCER_EPOCH - 1
        and metadata.producer_epoch == 0
    )
