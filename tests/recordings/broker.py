"""A broker of one node in memory: partition logs and a transaction coordinator, connected as in Kafka.

Clock and leader epochs come from the recording; every decision is made by the rules of `spark_jobs/kafka`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.record_batch import NO_PARTITION_LEADER_EPOCH
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.sample.broker.coordinator import Effects, TransactionCoordinator, TxnMarker
from spark_jobs.sample.broker.log_loader import load
from spark_jobs.sample.broker.partition_log import PartitionLog
from spark_jobs.sample.broker.replica_log import PartitionConfig
from tests.recordings.log_directory import LogDirectory, StoredBatch
from tests.recordings.resent_markers import ResentMarkers
from tests.recordings.settings import BrokerSettings, TopicSettings
from tests.recordings.transaction_log import TransactionRecord, transaction_log_of

FREQUENT_CHECK_MS = 1000
"""A periodic check that runs at least this often is assumed to run between any two requests."""
TIMEOUT_SCAN_INTERVAL_MS = 10_000
MARKER_TYPES = {TransactionResult.COMMIT: ControlType.COMMIT, TransactionResult.ABORT: ControlType.ABORT}


class Broker:
    """The state of a broker; `recorded` is the log directory that the real one left."""

    def __init__(self, settings: BrokerSettings, recorded: LogDirectory, now: int) -> None:
        self.settings, self.recorded, self.now = settings, recorded, now
        self.configs = {tp: partition_config(tp, topic, settings) for tp, topic in settings.topics.items()}
        self.logs = {tp: PartitionLog(config, now=now) for tp, config in self.configs.items()}
        self.recovery_points = dict.fromkeys(self.logs, 0)
        self.coordinator = TransactionCoordinator(max_timeout_ms=settings.transaction_max_timeout_ms)
        self.transaction_log = transaction_log_of(recorded, settings.transaction_partitions)
        self._last_expiration_check = now
        self._resent: list[ResentMarkers] = []
        self._become_leader()

    # -- time

    def advance(self, now: int, *, is_reported: bool) -> None:
        """Advances the clock to `now`: idle producers expire; if the time is known, transactions time out."""
        self.now = max(self.now, now)
        self._write_all_resent()
        interval = self.settings.expiration_check_interval_ms
        if interval <= FREQUENT_CHECK_MS or self.now - self._last_expiration_check >= interval:
            self._last_expiration_check = self.now
            for log in self.logs.values():
                log.manager.remove_expired_producers(self.now)
        if is_reported:
            self.apply(self.coordinator.abort_timed_out(now=self.now - TIMEOUT_SCAN_INTERVAL_MS))

    # -- partitions

    def leader(self, topic_partition: TopicPartition) -> PartitionLog:
        """The log to append to, with the leader epoch that the recorded one had at this offset."""
        self._write_resent(topic_partition)
        log = self.logs[topic_partition]
        log.leader_epoch = self._leader_epoch(topic_partition, log)
        return log

    def replicated(self, log: PartitionLog) -> None:
        """Everything is replicated: there are no followers."""
        log.update_high_watermark(log.log_end_offset)

    def recorded_times(self, topic_partition: TopicPartition) -> tuple[int, int]:
        """Timestamps of the recorded batch at the log's end: made, and on a LogAppendTime topic appended."""
        batch = self._recorded_batch(topic_partition)
        return (batch.header.base_timestamp, batch.header.max_timestamp) if batch else (self.now, self.now)

    def _recorded_batch(self, topic_partition: TopicPartition) -> StoredBatch | None:
        """The recorded batch at the end of the replayed log."""
        recorded = self.recorded.partitions.get(topic_partition)
        return recorded.batch_at.get(self.logs[topic_partition].log_end_offset) if recorded else None

    def delete_records(self, topic_partition: TopicPartition, offset: int) -> None:
        self.logs[topic_partition].delete_records(offset)

    def _leader_epoch(self, topic_partition: TopicPartition, log: PartitionLog) -> int:
        recorded = self.recorded.partitions.get(topic_partition)
        return recorded.leader_epoch_at(log.log_end_offset) if recorded else 0

    def _become_leader(self) -> None:
        for topic_partition, log in self.logs.items():
            epoch = self._leader_epoch(topic_partition, log)
            log.leader_epochs = log.leader_epochs.assign(epoch, log.log_end_offset)
            self.replicated(log)

    # -- transactions

    def apply(self, effects: Effects[Any]) -> None:
        """Write the coordinator's records, then its markers, then that they are written."""
        for record in effects.records:
            self.transaction_log.append(
                TransactionRecord(transactional_id=record.transactional_id, value=record.value)
            )
        for marker in effects.markers:
            self._write_markers(marker)

    def time_of_next(self, transactional_id: str) -> int:
        """The time of the coordinator's next record for this id."""
        return self.transaction_log.time_of_next(transactional_id, self.now)

    def _write_markers(self, marker: TxnMarker) -> None:
        """One on every partition; a leader that refuses leaves the transaction prepared (facts §3.7)."""
        transactional_id = marker.transactional_id
        marker = replace(marker, coordinator_epoch=self.transaction_log.coordinator_epoch(transactional_id))
        partitions = sorted(marker.topic_partitions & self.logs.keys())
        written = [self._write_marker(self.leader(tp), tp, marker) for tp in partitions]
        if all(written):
            self._complete(transactional_id)

    def _complete(self, transactional_id: str) -> None:
        now = self.time_of_next(transactional_id)
        self.apply(self.coordinator.complete(transactional_id, now=now))

    def _resend_markers(self, effects: Effects[None]) -> None:
        """A restarted coordinator sends the markers of prepared transactions again, at a time of its own."""
        self._resent = [
            ResentMarkers(marker=marker, missing=set(marker.topic_partitions & self.logs.keys()))
            for marker in effects.markers
        ]
        self._write_all_resent()

    def _write_all_resent(self) -> None:
        for resent in list(self._resent):
            for topic_partition in sorted(resent.missing):
                self._write_resent(topic_partition)

    def _write_resent(self, topic_partition: TopicPartition) -> None:
        """Writes the next recorded batch, if it is a marker that was sent again."""
        for resent in list(self._resent):
            batch = self._recorded_batch(topic_partition)
            if topic_partition in resent.missing and batch is not None and resent.is_in(batch):
                resent.missing.discard(topic_partition)
                log = self.logs[topic_partition]
                log.leader_epoch = self._leader_epoch(topic_partition, log)
                self._write_marker(log, topic_partition, resent.as_in(batch))
                if not resent.missing:
                    self._resent.remove(resent)
                    self._complete(resent.marker.transactional_id)

    def _write_marker(self, log: PartitionLog, topic_partition: TopicPartition, marker: TxnMarker) -> bool:
        created, appended = self.recorded_times(topic_partition)
        batch = write_marker(
            base_offset=0,
            partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
            timestamp=created,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            control_type=MARKER_TYPES[marker.result],
            coordinator_epoch=marker.coordinator_epoch,
        )
        result = log.append(
            batch,
            now=appended,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=marker.transaction_version,
        )
        self.replicated(log)
        return result.kafka_error is KafkaError.NONE

    # -- life

    def restart(self, *, clean: bool, log_starts: Mapping[TopicPartition, int]) -> None:
        """Shuts down or is killed, and loads everything from its files again.

        `log_starts` are the log starts afterwards: a kill may happen before they are checkpointed.
        """
        self.shut_down(clean=clean)
        for topic_partition, log in self.logs.items():
            self.logs[topic_partition] = load(
                log.files(),
                clean=clean,
                now=self.now,
                config=self.configs[topic_partition],
                recovery_point=self.recovery_points[topic_partition],
                log_start_offset=self._log_start(topic_partition, log, log_starts, clean=clean),
            )
        self._become_leader()
        self._resend_markers(self.coordinator.reload(coordinator_epoch=0))

    def shut_down(self, *, clean: bool) -> None:
        """Leaves the logs as they are on disk afterwards; a killed broker writes nothing more."""
        self._write_all_resent()
        for topic_partition, log in self._logs_after_retention():
            if clean:
                log.close()
                self.recovery_points[topic_partition] = log.log_end_offset

    def _logs_after_retention(self) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        """Logs without the segments below their start that the recorded broker had deleted in the end."""
        for topic_partition, log in self.logs.items():
            recorded = self.recorded.partitions.get(topic_partition)
            if recorded and recorded.segments and min(recorded.segments) > log.segments[0].base_offset:
                log.delete_old_segments()
            yield topic_partition, log

    def _log_start(
        self,
        topic_partition: TopicPartition,
        log: PartitionLog,
        reported: Mapping[TopicPartition, int],
        *,
        clean: bool,
    ) -> int:
        """Where the log starts after a restart; if unknown, a killed broker's last checkpoint decides."""
        if clean:
            return log.log_start_offset
        checkpoint = self.recorded.log_start_offsets.get(topic_partition, 0)
        return min(reported.get(topic_partition, checkpoint), log.log_start_offset)


def partition_config(
    topic_partition: TopicPartition, topic: TopicSettings, settings: BrokerSettings
) -> PartitionConfig:
    """The settings of a partition's log."""
    return PartitionConfig(
        topic_partition=topic_partition,
        segment_bytes=topic.segment_bytes,
        max_message_bytes=topic.max_message_bytes,
        message_timestamp_type=topic.timestamp_type,
        is_compacted=topic.compacted,
        producer_id_expiration_ms=settings.producer_id_expiration_ms,
        max_transaction_timeout_ms=settings.transaction_max_timeout_ms,
    )
