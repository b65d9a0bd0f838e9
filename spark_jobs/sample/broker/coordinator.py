"""The transaction coordinator as a state machine without a broker (facts §3).

A request returns values: the reply, the records to append to `__transaction_state` and the markers to write.
Appends count as done when they are returned, markers when `complete` is called.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from spark_jobs.kafka.coordinator import transaction_metadata as transitions
from spark_jobs.kafka.coordinator.transaction_metadata import (
    TransactionMetadata,
    TransactionResult,
    end_txn_action,
    is_epoch_exhausted,
)
from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from spark_jobs.kafka.formats.transaction_state import TransactionLogValue, TransactionState
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.topic_partition import TopicPartition


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
    """The error of InitProducerId in the id's current state, None if it may proceed (facts §3.4)."""
    if metadata.pending_state is not None:
        return KafkaError.CONCURRENT_TRANSACTIONS
    if expected is not None and not _may_be(metadata, *expected):
        return KafkaError.PRODUCER_FENCED
    return _refuse_prepared(metadata)


def _may_be(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """Whether the claimed identity is the id's own, or the one before a rotation whose reply got lost."""
    is_current = metadata.producer_epoch == NO_PRODUCER_EPOCH or producer_id == metadata.producer_id
    rotated = producer_id == metadata.previous_producer_id and is_epoch_exhausted(producer_epoch)
    return is_current or rotated


def refuse_add(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> KafkaError | None:
    """The error of AddPartitionsToTxn in the id's current state, None if it may proceed (facts §3.5)."""
    if metadata.pending_state is not None:
        return KafkaError.CONCURRENT_TRANSACTIONS
    return refuse_verify(metadata, producer_id, producer_epoch)


def refuse_verify(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> KafkaError | None:
    """The error of a verification; unlike an add, it does not depend on a pending state."""
    return _refuse_identity(metadata, producer_id, producer_epoch) or _refuse_prepared(metadata)


def _refuse_identity(
    metadata: TransactionMetadata, producer_id: int, producer_epoch: int
) -> KafkaError | None:
    if metadata.producer_id != producer_id:
        return KafkaError.INVALID_PRODUCER_ID_MAPPING
    return KafkaError.PRODUCER_FENCED if metadata.producer_epoch != producer_epoch else None


def _refuse_prepared(metadata: TransactionMetadata) -> KafkaError | None:
    return KafkaError.CONCURRENT_TRANSACTIONS if metadata.state.is_prepare else None


R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionUpdate:
    """A record to append to `__transaction_state`; no value is a tombstone."""

    transactional_id: str
    value: TransactionLogValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnMarker:
    """One marker to write on each of `topic_partitions`; their leaders check it by `transaction_version`."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    result: TransactionResult
    transaction_version: TransactionVersion
    topic_partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects(Generic[R_co]):
    """The effects of a request."""

    reply: R_co
    records: tuple[TransactionUpdate, ...] = ()
    markers: tuple[TxnMarker, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdReply:
    """Reply to InitProducerId and EndTxn: the identity to continue with, -1 and -1 with an error."""

    error: KafkaError
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


BLOCK_SIZE = 1000
PREFETCH_AT = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIds:
    """A broker's producer ids: left in its block, a prefetched block, the controller's next (facts §7)."""

    next_id: int = 0
    block_end: int = 0
    prefetched_start: int | None = None
    next_block_start: int = 0

    def allocate(self) -> tuple[int, "ProducerIds"]:
        """The next id, and the remaining ids."""
        supply = self if self.next_id < self.block_end else self._next_block()
        allocated = supply.next_id
        supply = replace(supply, next_id=allocated + 1)
        if allocated == supply.block_end - BLOCK_SIZE + PREFETCH_AT:
            supply = replace(
                supply,
                prefetched_start=supply.next_block_start,
                next_block_start=supply.next_block_start + BLOCK_SIZE,
            )
        return allocated, supply

    def restart(self) -> "ProducerIds":
        """A restarted broker has lost the rest of its blocks."""
        return ProducerIds(next_block_start=self.next_block_start)

    def _next_block(self) -> "ProducerIds":
        if self.prefetched_start is not None:
            start, after = self.prefetched_start, self.next_block_start
        else:
            start, after = self.next_block_start, self.next_block_start + BLOCK_SIZE
        return ProducerIds(next_id=start, block_end=start + BLOCK_SIZE, next_block_start=after)


MAX_TRANSACTION_TIMEOUT_MS = 900_000
TRANSACTIONAL_ID_EXPIRATION_MS = 7 * 24 * 3_600_000

R = TypeVar("R")


class TransactionCoordinator:
    """All transactional ids of one broker; `coordinator_epoch` is the leader epoch of their log."""

    def __init__(
        self,
        *,
        transaction_version: TransactionVersion = TransactionVersion.TV2,
        coordinator_epoch: int = 0,
        producer_ids: ProducerIds | None = None,
        max_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    ) -> None:
        self.transaction_version = transaction_version
        self.coordinator_epoch = coordinator_epoch
        self.producer_ids = producer_ids or ProducerIds()
        self.max_timeout_ms = max_timeout_ms
        self.transactions: dict[str, TransactionMetadata] = {}

    def init_producer_id(
        self,
        transactional_id: str | None,
        *,
        timeout_ms: int,
        now: int,
        expected: tuple[int, int] | None = None,
    ) -> Effects[ProducerIdReply]:
        """InitProducerId; `expected` is the producer id and epoch that the client has, if any."""
        if transactional_id is None:
            reply = ProducerIdReply(error=KafkaError.NONE, producer_id=self._allocate(), producer_epoch=0)
            return Effects(reply=reply)
        if not transactional_id:
            return Effects(reply=ProducerIdReply(error=KafkaError.INVALID_REQUEST))
        if not 0 < timeout_ms <= self.max_timeout_ms:
            return Effects(reply=ProducerIdReply(error=KafkaError.INVALID_TRANSACTION_TIMEOUT))
        metadata = self._known_or_new(transactional_id, timeout_ms)
        if error := refuse_init(metadata, expected):
            return Effects(reply=ProducerIdReply(error=error))
        if metadata.state is TransactionState.ONGOING:
            busy = ProducerIdReply(error=KafkaError.CONCURRENT_TRANSACTIONS)
            return self._end(self._fenced(metadata, now), reply=busy)
        return self._introduce(metadata, timeout_ms, expected[1] if expected else None, now)

    def add_partitions(
        self,
        transactional_id: str,
        *,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
        now: int,
        transaction_version: TransactionVersion = TransactionVersion.TV0,
    ) -> Effects[KafkaError]:
        """Adds partitions to the transaction: by the client's request or, in TV2, by its first produce."""
        added = frozenset(partitions)
        metadata = self.transactions.get(transactional_id)
        if not transactional_id:
            return Effects(reply=KafkaError.INVALID_REQUEST)
        if metadata is None:
            return Effects(reply=KafkaError.INVALID_PRODUCER_ID_MAPPING)
        if error := refuse_add(metadata, producer_id, producer_epoch):
            return Effects(reply=error)
        if metadata.state is TransactionState.ONGOING and added <= metadata.topic_partitions:
            return Effects(reply=KafkaError.NONE)
        client_version = 2 if transaction_version is TransactionVersion.TV2 else 0
        changed = transitions.add_partitions(metadata, added, client_version=client_version, now=now)
        return Effects(reply=KafkaError.NONE, records=(self._store(changed),))

    def verify_partitions(
        self,
        transactional_id: str,
        *,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, KafkaError]:
        """Whether each partition is in the ongoing transaction: a leader verifies it before a TV1 append."""
        asked = tuple(partitions)
        metadata = self.transactions.get(transactional_id)
        if metadata is None:
            return dict.fromkeys(asked, KafkaError.INVALID_PRODUCER_ID_MAPPING)
        if error := refuse_verify(metadata, producer_id, producer_epoch):
            return dict.fromkeys(asked, error)
        present = metadata.topic_partitions
        return {p: KafkaError.NONE if p in present else KafkaError.TRANSACTION_ABORTABLE for p in asked}

    def end_txn(
        self,
        transactional_id: str,
        *,
        producer_id: int,
        producer_epoch: int,
        result: TransactionResult,
        now: int,
        transaction_version: TransactionVersion = TransactionVersion.TV0,
    ) -> Effects[ProducerIdReply]:
        """EndTxn; a TV2 client gets the identity of its next transaction."""
        metadata = self.transactions.get(transactional_id)
        if not transactional_id:
            return Effects(reply=ProducerIdReply(error=KafkaError.INVALID_REQUEST))
        if metadata is None:
            return Effects(reply=ProducerIdReply(error=KafkaError.INVALID_PRODUCER_ID_MAPPING))
        action = end_txn_action(
            metadata,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            result=result,
            version=transaction_version,
        )
        if action is KafkaError.NONE:
            return Effects(reply=_identity(metadata, transaction_version))
        if isinstance(action, KafkaError):
            return Effects(reply=ProducerIdReply(error=action))
        prepared = transitions.prepare_end(
            metadata,
            action,
            version=transaction_version,
            next_producer_id=self._successor(metadata, transaction_version),
            now=now,
        )
        return self._end(prepared, reply=_identity(prepared, transaction_version))

    def complete(self, transactional_id: str, *, now: int) -> Effects[KafkaError]:
        """Every marker of the prepared transaction is written."""
        changed = transitions.complete(self.transactions[transactional_id], now=now)
        return Effects(reply=KafkaError.NONE, records=(self._store(changed),))

    def abort_timed_out(self, *, now: int) -> Effects[tuple[str, ...]]:
        """Fence every ongoing transaction that is past its timeout (facts §3.6); the reply names them."""
        late = [m for m in self.transactions.values() if is_timed_out(m, now=now)]
        ended = [self._end(self._fenced(metadata, now), reply=None) for metadata in late]
        return Effects(
            reply=tuple(m.transactional_id for m in late),
            records=tuple(record for effects in ended for record in effects.records),
            markers=tuple(marker for effects in ended for marker in effects.markers),
        )

    def expired(
        self, *, now: int, expiration_ms: int = TRANSACTIONAL_ID_EXPIRATION_MS
    ) -> tuple[TransactionUpdate, ...]:
        """Tombstones for the ids that were not used for `expiration_ms`; the ids stay until `prune`."""
        old = (m for m in self.transactions.values() if is_expired(m, now=now, expiration_ms=expiration_ms))
        return tuple(TransactionUpdate(transactional_id=m.transactional_id, value=None) for m in old)

    def prune(self, tombstones: Iterable[TransactionUpdate]) -> None:
        """The tombstones are in the log."""
        for tombstone in tombstones:
            del self.transactions[tombstone.transactional_id]

    def reload(
        self, *, coordinator_epoch: int, values: Mapping[str, TransactionLogValue] | None = None
    ) -> Effects[None]:
        """Restarts from the log, its own without `values`; prepared transactions send their markers again.

        In-memory state is lost: last producer epochs and the rest of the block of producer ids.
        """
        if values is None:
            values = {i: transitions.to_value(m) for i, m in self.transactions.items()}
        self.coordinator_epoch = coordinator_epoch
        self.producer_ids = self.producer_ids.restart()
        self.transactions = {i: transitions.from_value(i, value) for i, value in values.items()}
        prepared = (m for m in self.transactions.values() if m.state.is_prepare)
        return Effects(reply=None, markers=tuple(self._marker(m) for m in prepared))

    def _known_or_new(self, transactional_id: str, timeout_ms: int) -> TransactionMetadata:
        if transactional_id not in self.transactions:
            self.transactions[transactional_id] = TransactionMetadata(
                transactional_id=transactional_id,
                producer_id=self._allocate(),
                transaction_timeout_ms=timeout_ms,
            )
        return self.transactions[transactional_id]

    def _introduce(
        self, metadata: TransactionMetadata, timeout_ms: int, expected_epoch: int | None, now: int
    ) -> Effects[ProducerIdReply]:
        if metadata.is_epoch_exhausted and expected_epoch in {None, metadata.producer_epoch}:
            changed: TransactionMetadata | KafkaError = transitions.rotate_producer_id(
                metadata,
                producer_id=self._allocate(),
                timeout_ms=timeout_ms,
                record_last_epoch=expected_epoch is not None,
                now=now,
            )
        else:
            changed = transitions.increment_producer_epoch(
                metadata, timeout_ms=timeout_ms, expected_epoch=expected_epoch, now=now
            )
        if isinstance(changed, KafkaError):
            return Effects(reply=ProducerIdReply(error=changed))
        reply = ProducerIdReply(
            error=KafkaError.NONE, producer_id=changed.producer_id, producer_epoch=changed.producer_epoch
        )
        return Effects(reply=reply, records=(self._store(changed),))

    def _fenced(self, metadata: TransactionMetadata, now: int) -> TransactionMetadata:
        successor = self._successor(metadata, self.transaction_version)
        return transitions.fence(
            metadata, version=self.transaction_version, next_producer_id=successor, now=now
        )

    def _end(self, prepared: TransactionMetadata, *, reply: R) -> Effects[R]:
        return Effects(reply=reply, records=(self._store(prepared),), markers=(self._marker(prepared),))

    def _marker(self, metadata: TransactionMetadata) -> TxnMarker:
        committed = metadata.state is TransactionState.PREPARE_COMMIT
        tv2 = metadata.client_transaction_version >= 2
        return TxnMarker(
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            result=TransactionResult.COMMIT if committed else TransactionResult.ABORT,
            transaction_version=TransactionVersion.TV2 if tv2 else TransactionVersion.TV0,
            topic_partitions=metadata.topic_partitions,
        )

    def _store(self, metadata: TransactionMetadata) -> TransactionUpdate:
        self.transactions[metadata.transactional_id] = metadata
        return TransactionUpdate(
            transactional_id=metadata.transactional_id, value=transitions.to_value(metadata)
        )

    def _successor(self, metadata: TransactionMetadata, version: TransactionVersion) -> int:
        """The producer id that takes over when a TV2 bump uses the last epoch."""
        rotates = version is TransactionVersion.TV2 and metadata.is_epoch_exhausted
        return self._allocate() if rotates else NO_PRODUCER_ID

    def _allocate(self) -> int:
        producer_id, self.producer_ids = self.producer_ids.allocate()
        return producer_id


def _identity(metadata: TransactionMetadata, version: TransactionVersion) -> ProducerIdReply:
    """The identity in EndTxn's reply: the next transaction's for TV2, none for older clients."""
    if version is not TransactionVersion.TV2:
        return ProducerIdReply(error=KafkaError.NONE)
    if metadata.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdReply(error=KafkaError.NONE, producer_id=metadata.next_producer_id, producer_epoch=0)
    return ProducerIdReply(
        error=KafkaError.NONE, producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch
    )


def list_transactions(
    transactions: Iterable[TransactionMetadata],
    *,
    now: int,
    producer_ids: Collection[int] = (),
    states: Collection[TransactionState] = (),
    min_duration_ms: int = -1,
    pattern: str | None = None,
) -> tuple[TransactionMetadata, ...]:
    """ListTransactions: the ids that pass every given filter, except those being removed.

    `min_duration_ms` selects transactions that began longer ago; `pattern` must match the whole id.
    """
    return tuple(
        metadata
        for metadata in transactions
        if metadata.state is not TransactionState.DEAD
        and (not producer_ids or metadata.producer_id in producer_ids)
        and (not states or metadata.state in states)
        and (min_duration_ms < 0 or now - metadata.start_timestamp_ms > min_duration_ms)
        and (pattern is None or re.fullmatch(pattern, metadata.transactional_id))
    )


# The error code for a client's API version: older versions have fewer codes (facts §0, §3).
FIRST_VERSION_WITH_PRODUCER_FENCED = {"init_producer_id": 4, "add_partitions_to_txn": 2, "end_txn": 2}
FIRST_PRODUCE_VERSION_WITH_ABORTABLE = 11


def reply_error(api: str, version: int, error: KafkaError) -> KafkaError:
    """`error` of the coordinator as a client with API version `version` gets it."""
    if error is KafkaError.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED[api]:
        return KafkaError.INVALID_PRODUCER_EPOCH
    return error


def produce_error(version: int, error: KafkaError) -> KafkaError:
    """`error` of the coordinator while a produce request is verified or added to its transaction."""
    if error is KafkaError.PRODUCER_FENCED:
        return KafkaError.INVALID_PRODUCER_EPOCH
    if error is KafkaError.TRANSACTION_ABORTABLE and version < FIRST_PRODUCE_VERSION_WITH_ABORTABLE:
        return KafkaError.INVALID_TXN_STATE
    return error
