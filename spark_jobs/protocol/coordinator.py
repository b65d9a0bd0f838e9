"""The transaction coordinator as a state machine without a broker (facts §3).

Requests go in; a reply, the records to append to `__transaction_state` and the markers to write come out as
values. Appends count as done when they are returned, markers when `complete` is called.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from spark_jobs.protocol import transaction_metadata as transitions
from spark_jobs.protocol.coordinator_checks import (
    is_expired,
    is_timed_out,
    refuse_add,
    refuse_init,
    refuse_verify,
)
from spark_jobs.protocol.coordinator_effects import Effects, ProducerIdReply, TransactionUpdate, TxnMarker
from spark_jobs.protocol.coordinator_log import TransactionLogValue, TransactionState
from spark_jobs.protocol.end_txn import TransactionResult, end_txn_action
from spark_jobs.protocol.errors import KafkaError
from spark_jobs.protocol.producer_ids import ProducerIds
from spark_jobs.protocol.producer_state import TransactionVersion
from spark_jobs.protocol.record_batch import NO_PRODUCER_ID
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transaction_metadata import TransactionMetadata

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
        """A producer introduces itself; `expected` is the producer id and epoch that it believes to have."""
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
        """Partitions join the transaction, asked for by the client or, in TV2, by its first produce there."""
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
        """Whether each partition is in the ongoing transaction: what a leader asks before a TV1 append."""
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
        """A client commits or aborts; a TV2 client is told the identity of its next transaction."""
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
        """Tombstones for the ids that nobody used for `expiration_ms`; they are known until `prune`."""
        old = (m for m in self.transactions.values() if is_expired(m, now=now, expiration_ms=expiration_ms))
        return tuple(TransactionUpdate(transactional_id=m.transactional_id, value=None) for m in old)

    def prune(self, tombstones: Iterable[TransactionUpdate]) -> None:
        """The tombstones are in the log."""
        for tombstone in tombstones:
            del self.transactions[tombstone.transactional_id]

    def reload(
        self, *, coordinator_epoch: int, values: Mapping[str, TransactionLogValue] | None = None
    ) -> Effects[None]:
        """Start again from the log, its own when no `values` are given; prepared ones send markers again.

        What memory alone held is lost: last producer epochs and the rest of the block of producer ids.
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
    """The identity that EndTxn answers: the next transaction's for TV2, none for older clients."""
    if version is not TransactionVersion.TV2:
        return ProducerIdReply(error=KafkaError.NONE)
    if metadata.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdReply(error=KafkaError.NONE, producer_id=metadata.next_producer_id, producer_epoch=0)
    return ProducerIdReply(
        error=KafkaError.NONE, producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch
    )
