"""When the transaction coordinator refuses, times out or forgets (facts §3.4-3.6)."""

from spark_jobs.protocol.coordinator_log import TransactionState
from spark_jobs.protocol.errors import KafkaError
from spark_jobs.protocol.record_batch import NO_PRODUCER_EPOCH
from spark_jobs.protocol.transaction_metadata import TransactionMetadata, is_epoch_exhausted


def is_timed_out(metadata: TransactionMetadata, *, now: int) -> bool:
    """Ongoing past its timeout, nothing pending, and not left to two-phase commit (facts §3.6)."""
    return (
        metadata.state is TransactionState.ONGOING
        and metadata.pending_state is None
        and not metadata.is_two_phase_commit
        and metadata.start_timestamp_ms + metadata.transaction_timeout_ms < now
    )


def is_expired(metadata: TransactionMetadata, *, now: int, expiration_ms: int) -> bool:
    """Idle, nothing pending, and not updated for `expiration_ms` (facts §3.1)."""
    old = metadata.last_update_timestamp_ms <= now - expiration_ms
    return metadata.is_idle and metadata.pending_state is None and old


def refuse_init(metadata: TransactionMetadata, expected: tuple[int, int] | None) -> KafkaError | None:
    """Why a producer may not introduce itself now."""
    if metadata.pending_state is not None:
        return KafkaError.CONCURRENT_TRANSACTIONS
    if expected is not None and not _may_be(metadata, *expected):
        return KafkaError.PRODUCER_FENCED
    return _refuse_prepared(metadata)


def _may_be(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """The identity a producer claims is the id's own, or the one before a rotation whose answer it missed."""
    is_current = metadata.producer_epoch == NO_PRODUCER_EPOCH or producer_id == metadata.producer_id
    rotated = producer_id == metadata.previous_producer_id and is_epoch_exhausted(producer_epoch)
    return is_current or rotated


def refuse_add(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> KafkaError | None:
    """Why partitions may not join now."""
    if metadata.pending_state is not None:
        return KafkaError.CONCURRENT_TRANSACTIONS
    return refuse_verify(metadata, producer_id, producer_epoch)


def refuse_verify(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> KafkaError | None:
    """Why nothing can be said of the ongoing transaction; unlike an add, it waits for nothing pending."""
    return _refuse_identity(metadata, producer_id, producer_epoch) or _refuse_prepared(metadata)


def _refuse_identity(
    metadata: TransactionMetadata, producer_id: int, producer_epoch: int
) -> KafkaError | None:
    if metadata.producer_id != producer_id:
        return KafkaError.INVALID_PRODUCER_ID_MAPPING
    return KafkaError.PRODUCER_FENCED if metadata.producer_epoch != producer_epoch else None


def _refuse_prepared(metadata: TransactionMetadata) -> KafkaError | None:
    return KafkaError.CONCURRENT_TRANSACTIONS if metadata.state.is_prepare else None
