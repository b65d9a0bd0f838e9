"""A small scripted Kafka cluster: a coordinator, logs, a gateway that captures requests, and clients.

The gateway writes produce requests for captured topics to its objects unchecked; other topics have a log with
a broker's checks. The clock is simulated.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.record_batch import NO_PARTITION_LEADER_EPOCH, Codec
from spark_jobs.kafka.formats.records import Header, Record
from spark_jobs.kafka.formats.transaction_state import TransactionLogKey, write_key, write_value
from spark_jobs.kafka.partitioners import coordinator_partition
from spark_jobs.kafka.producers.producer_state import AppendOrigin, TransactionVersion
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.sample.broker.coordinator import (
    Effects,
    ProducerIdReply,
    ProducerIds,
    TransactionCoordinator,
    TransactionUpdate,
    TxnMarker,
)
from spark_jobs.sample.broker.partition_log import PartitionLog
from spark_jobs.sample.broker.replica_log import PartitionConfig

TV2 = TransactionVersion.TV2
TRANSACTION_STATE, TRANSACTION_STATE_PARTITIONS = "__transaction_state", 4
FIRST_PRODUCER_ID = 4000
TIMEOUT_MS = 900_000
SEGMENT_BYTES = 16 * 1024
"""Small, so that two days fill more than one segment."""


@dataclass(slots=True)
class SampleCluster:
    """The cluster and its clock; `captured` holds the gateway's objects of a day, the last one open."""

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
        """InitProducerId, repeated until the open transaction of the id's last owner has ended."""
        reply = self._introduce(transactional_id)
        return reply if reply.producer_id >= 0 else self._introduce(transactional_id)

    def _introduce(self, transactional_id: str | None) -> ProducerIdReply:
        effects = self.coordinator.init_producer_id(transactional_id, timeout_ms=TIMEOUT_MS, now=self.now)
        self._apply(effects)
        return effects.reply

    def join(self, transactional_id: str, identity: ProducerIdReply, partition: TopicPartition) -> None:
        """Adds a partition to the producer's transaction, at its first batch there."""
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
        """Receives a producer's batch."""
        if partition.topic in self.logged_topics:
            self._log(partition).append(batch, now=self.now)
        else:
            self.captured[partition][-1].append(batch)

    def rotate(self, partition: TopicPartition) -> None:
        """Closes the gateway's object of this partition; the next batch begins another."""
        self.captured[partition].append([])

    def _apply(self, effects: Effects[object]) -> None:
        """Appends the coordinator's records and markers; after its last marker a transaction is complete."""
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


Event = tuple[str | None, Mapping[str, object]]
"""A record's key, if it has one, and its value, which is written as JSON."""


@dataclass(slots=True)
class SampleProducer:
    """An idempotent producer; with a transactional id, every batch belongs to a transaction."""

    cluster: SampleCluster
    name: str
    transactional_id: str | None = None
    codec: Codec = Codec.NONE
    identity: ProducerIdReply = field(init=False)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.introduce()

    def introduce(self) -> None:
        """Gets a new identity, or a new epoch of the old one; sequences start at 0."""
        self.identity = self.cluster.introduce(self.transactional_id)
        self.sequences = {}

    def prepare(
        self, partition: TopicPartition, events: Sequence[Event], *, is_transactional: bool | None = None
    ) -> bytes:
        """The next batch for `partition`, numbered but not sent."""
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + len(events)
        return build_batch(
            records=[self._record(number, event) for number, event in enumerate(events)],
            base_timestamp=self.cluster.now,
            codec=self.codec,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            base_sequence=sequence,
            is_transactional=(
                self.transactional_id is not None if is_transactional is None else is_transactional
            ),
        )

    def send(self, partition: TopicPartition, events: Sequence[Event]) -> bytes:
        """Sends the next batch and returns it for retries."""
        if self.transactional_id is not None:
            self.cluster.join(self.transactional_id, self.identity, partition)
        batch = self.prepare(partition, events)
        self.cluster.deliver(partition, batch)
        return batch

    def commit(self) -> None:
        self._end(TransactionResult.COMMIT)

    def abort(self) -> None:
        self._end(TransactionResult.ABORT)

    def _end(self, result: TransactionResult) -> None:
        if self.transactional_id is not None:
            self.identity = self.cluster.end(self.transactional_id, self.identity, result)
            self.sequences = {}

    def _record(self, number: int, event: Event) -> Record:
        key, value = event
        return Record(
            offset_delta=number,
            timestamp_delta=number,
            key=None if key is None else key.encode(),
            value=json.dumps(value).encode(),
            headers=(Header(key="sent-by", value=self.name.encode()),),
        )
