"""A Kafka cluster small enough to script: a real coordinator, logs, and a gateway that captures.

Produce requests for captured topics are written to the gateway's objects unchecked; other topics have a log
with a broker's checks. The clock is simulated.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from spark_jobs.protocol.batch_builder import build_batch
from spark_jobs.protocol.control_record import ControlType, write_marker
from spark_jobs.protocol.coordinator import TransactionCoordinator
from spark_jobs.protocol.coordinator_effects import Effects, ProducerIdReply, TransactionUpdate, TxnMarker
from spark_jobs.protocol.coordinator_log import TransactionLogKey, write_key, write_value
from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.protocol.hashes import coordinator_partition
from spark_jobs.protocol.partition_config import PartitionConfig
from spark_jobs.protocol.partition_log import PartitionLog
from spark_jobs.protocol.producer_ids import ProducerIds
from spark_jobs.protocol.producer_state import AppendOrigin, TransactionVersion
from spark_jobs.protocol.record_batch import NO_PARTITION_LEADER_EPOCH
from spark_jobs.protocol.records import Record
from spark_jobs.protocol.topic_partition import TopicPartition

TV2 = TransactionVersion.TV2
TRANSACTION_STATE, TRANSACTION_STATE_PARTITIONS = "__transaction_state", 4
FIRST_PRODUCER_ID = 4000
TIMEOUT_MS = 900_000
SEGMENT_BYTES = 16 * 1024
"""Small, so that a short story fills more than one segment."""


@dataclass(slots=True)
class Cluster:
    """The cluster on one clock; `captured` holds the gateway's objects of a day, the last one open."""

    now: int
    logged_topics: frozenset[str]
    coordinator: TransactionCoordinator = field(
        default_factory=lambda: TransactionCoordinator(
            coordinator_epoch=7, producer_ids=ProducerIds(next_block_start=FIRST_PRODUCER_ID)
        )
    )
    captured: dict[TopicPartition, list[list[bytes]]] = field(default_factory=dict)
    logs: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    unreachable: set[TopicPartition] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.captured = defaultdict(lambda: [[]])
        for number in range(TRANSACTION_STATE_PARTITIONS):
            self._log(TopicPartition(TRANSACTION_STATE, number))

    def introduce(self, transactional_id: str | None) -> ProducerIdReply:
        """InitProducerId, again until what the id's last owner left open is ended."""
        reply = self._introduce(transactional_id)
        return reply if reply.producer_id >= 0 else self._introduce(transactional_id)

    def _introduce(self, transactional_id: str | None) -> ProducerIdReply:
        effects = self.coordinator.init_producer_id(transactional_id, timeout_ms=TIMEOUT_MS, now=self.now)
        self._apply(effects)
        return effects.reply

    def join(self, transactional_id: str, identity: ProducerIdReply, partition: TopicPartition) -> None:
        """A partition becomes part of the producer's transaction, by its first batch there."""
        self._apply(
            self.coordinator.add_partitions(
                transactional_id,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                partitions=[partition],
                now=self.now,
                transaction_version=TV2,
            )
        )

    def end(
        self, transactional_id: str, identity: ProducerIdReply, result: TransactionResult
    ) -> ProducerIdReply:
        """EndTxn; the reply is the identity of the next transaction."""
        effects = self.coordinator.end_txn(
            transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            result=result,
            now=self.now,
            transaction_version=TV2,
        )
        self._apply(effects)
        return effects.reply

    def deliver(self, partition: TopicPartition, batch: bytes) -> None:
        """A producer's batch arrives."""
        if partition.topic in self.logged_topics:
            self._log(partition).append(batch, now=self.now)
        else:
            self.captured[partition][-1].append(batch)

    def rotate(self, partition: TopicPartition) -> None:
        """The gateway closes its object of this partition; the next batch begins another."""
        self.captured[partition].append([])

    def _apply(self, effects: Effects[object]) -> None:
        """Write down what the coordinator decided; it is complete once its markers are everywhere."""
        for update in effects.records:
            self._write_update(update)
        for marker in effects.markers:
            for partition in sorted(marker.topic_partitions - self.unreachable):
                self._write_marker(marker, partition)
            if not marker.topic_partitions & self.unreachable:
                self._apply(self.coordinator.complete(marker.transactional_id, now=self.now))

    def _write_update(self, update: TransactionUpdate) -> None:
        number = coordinator_partition(update.transactional_id, TRANSACTION_STATE_PARTITIONS)
        record = Record(
            key=write_key(TransactionLogKey(transactional_id=update.transactional_id)),
            value=None if update.value is None else write_value(update.value),
        )
        batch = build_batch(records=[record], base_timestamp=self.now)
        log = self._log(TopicPartition(TRANSACTION_STATE, number))
        log.append(batch, now=self.now, origin=AppendOrigin.COORDINATOR)

    def _write_marker(self, marker: TxnMarker, partition: TopicPartition) -> None:
        is_commit = marker.result is TransactionResult.COMMIT
        batch = write_marker(
            base_offset=0,
            partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
            timestamp=self.now,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            control_type=ControlType.COMMIT if is_commit else ControlType.ABORT,
            coordinator_epoch=marker.coordinator_epoch,
        )
        if partition.topic in self.logged_topics:
            log, origin = self._log(partition), AppendOrigin.COORDINATOR
            log.append(batch, now=self.now, origin=origin, transaction_version=TV2)
        else:
            self.captured[partition][-1].append(batch)

    def _log(self, partition: TopicPartition) -> PartitionLog:
        if partition not in self.logs:
            config = PartitionConfig(
                topic_partition=partition,
                segment_bytes=SEGMENT_BYTES,
                transaction_partition_verification_enable=False,
            )
            self.logs[partition] = PartitionLog(config, now=self.now)
            self.logs[partition].become_leader(0)
        return self.logs[partition]
