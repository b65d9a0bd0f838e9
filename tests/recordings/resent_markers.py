"""Markers that a restarted coordinator sends again for prepared transactions (facts §3.1)."""

from dataclasses import dataclass, replace

from spark_jobs.kafka.formats.control_record import read_marker
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.sample.broker.coordinator import TxnMarker
from tests.recordings.log_directory import StoredBatch


@dataclass(slots=True, kw_only=True)
class ResentMarkers:
    """One transaction's markers and the partitions that do not have theirs yet.

    When each is written, between which requests, is the broker's own timing: the recorded log shows it.
    """

    marker: TxnMarker
    missing: set[TopicPartition]

    def is_in(self, batch: StoredBatch) -> bool:
        """Whether a recorded batch is a marker of this producer and epoch."""
        header = batch.header
        identity = (self.marker.producer_id, self.marker.producer_epoch)
        return header.is_control and (header.producer_id, header.producer_epoch) == identity

    def as_in(self, batch: StoredBatch) -> TxnMarker:
        """The marker under the coordinator's leader epoch, which the controller chose."""
        recorded = read_marker(batch.data)
        return replace(self.marker, coordinator_epoch=recorded.coordinator_epoch if recorded else 0)
