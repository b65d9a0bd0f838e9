"""A small cluster for tests: the coordinator, partitions as lists of batches, the true outcome of each batch.

The coordinator's decisions are written as by a broker: records in its log, markers on partitions.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from spark_jobs.kafka.coordinator.history import CoordinatorRecord
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.formats.control_record import ControlType, EndTransactionMarker
from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, RecordBatchHeader
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import LogBatch
from spark_jobs.sample.broker.coordinator import Effects, TransactionCoordinator, TxnMarker

PARTITIONS = tuple(TopicPartition("t", n) for n in range(3))
TV0, TV2 = TransactionVersion.TV0, TransactionVersion.TV2


@dataclass(slots=True)
class Producer:
    """A client that speaks one transaction version."""

    transactional_id: str
    version: TransactionVersion
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(slots=True)
class Cluster:
    """The cluster and its clock; `truth` has the outcome of each batch, None while open."""

    now: int = 1_000_000
    coordinator: TransactionCoordinator = field(
        default_factory=lambda: TransactionCoordinator(max_timeout_ms=2**31 - 1)
    )
    timeout_ms: int = 900_000
    entries: list[CoordinatorRecord] = field(default_factory=list)
    written_at: list[int] = field(default_factory=list)
    logs: dict[TopicPartition, list[LogBatch]] = field(default_factory=lambda: {p: [] for p in PARTITIONS})
    truth: dict[tuple[TopicPartition, int], bool | None] = field(default_factory=dict)

    def init(self, producer: Producer) -> None:
        """InitProducerId, repeated as a client does until the coordinator has ended the open transaction."""
        self.fail_over()
        busy = True
        while busy:
            effects = self.coordinator.init_producer_id(
                producer.transactional_id, timeout_ms=self.timeout_ms, now=self.now
            )
            self._apply(effects)
            busy = effects.reply.producer_id < 0
        producer.producer_id = effects.reply.producer_id
        producer.producer_epoch = effects.reply.producer_epoch

    def join(self, producer: Producer, partition: TopicPartition) -> bool:
        """Adds a partition to the producer's transaction: it gets a marker, with data or without."""
        effects = self.coordinator.add_partitions(
            producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            partitions=[partition],
            now=self.now,
            transaction_version=producer.version,
        )
        self._apply(effects)
        return not effects.reply

    def produce(self, producer: Producer, partition: TopicPartition) -> None:
        """One batch in the producer's transaction."""
        if self.join(producer, partition):
            offset = self._append(partition, producer.producer_id, producer.producer_epoch, None)
            self.truth[partition, offset] = None

    def end(
        self,
        producer: Producer,
        result: TransactionResult,
        *,
        reached: Collection[TopicPartition] = PARTITIONS,
    ) -> None:
        """Commit or abort; with partitions that the markers do not reach, the coordinator stays prepared."""
        effects = self.coordinator.end_txn(
            producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            result=result,
            now=self.now,
            transaction_version=producer.version,
        )
        self._apply(effects, reached=reached)
        if effects.reply.producer_id >= 0:
            producer.producer_id = effects.reply.producer_id
            producer.producer_epoch = effects.reply.producer_epoch

    def fail_over(self) -> None:
        """A new coordinator: prepared transactions send their markers again."""
        self._apply(self.coordinator.reload(coordinator_epoch=self.coordinator.coordinator_epoch + 1))

    def _apply(self, effects: Effects[object], *, reached: Collection[TopicPartition] = PARTITIONS) -> None:
        for update in effects.records:
            self.entries.append(
                CoordinatorRecord(
                    transactional_id=update.transactional_id,
                    offset=len(self.entries),
                    coordinator_epoch=self.coordinator.coordinator_epoch,
                    value=update.value,
                )
            )
            self.written_at.append(self.now)
        for marker in effects.markers:
            self.now += 1
            self._write_markers(marker, reached)
            if marker.topic_partitions <= set(reached):
                self._apply(self.coordinator.complete(marker.transactional_id, now=self.now))
                self.now += 1

    def _write_markers(self, marker: TxnMarker, reached: Collection[TopicPartition]) -> None:
        is_commit = marker.result is TransactionResult.COMMIT
        control = EndTransactionMarker(
            control_type=ControlType.COMMIT if is_commit else ControlType.ABORT,
            coordinator_epoch=marker.coordinator_epoch,
        )
        for partition in sorted(marker.topic_partitions):
            for header, _ in self.logs[partition]:
                key = (partition, header.last_offset)
                if header.producer_id == marker.producer_id and self.truth.get(key, False) is None:
                    self.truth[key] = is_commit
            if partition in reached:
                self._append(partition, marker.producer_id, marker.producer_epoch, control)

    def _append(
        self, partition: TopicPartition, producer_id: int, epoch: int, marker: EndTransactionMarker | None
    ) -> int:
        log = self.logs[partition]
        header = RecordBatchHeader(
            base_offset=len(log),
            batch_length=0,
            partition_leader_epoch=0,
            magic=2,
            crc=0,
            attributes=TRANSACTIONAL_FLAG | (CONTROL_FLAG if marker else 0),
            last_offset_delta=0,
            base_timestamp=self.now,
            max_timestamp=self.now,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=-1 if marker else 0,
            record_count=1,
        )
        log.append((header, marker))
        return header.base_offset
