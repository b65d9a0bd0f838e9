"""The settings of a topic and its broker that decide what a partition's log looks like (facts §0)."""

from collections.abc import MutableMapping
from dataclasses import dataclass

from spark_jobs.protocol.log_segment import LogSegment
from spark_jobs.protocol.producer_state_manager import (
    MAX_TRANSACTION_TIMEOUT_MS,
    PRODUCER_ID_EXPIRATION_MS,
    ProducerStateManager,
)
from spark_jobs.protocol.record_batch import Codec, TimestampType
from spark_jobs.protocol.topic_partition import TopicPartition

ANY_AGE_MS = 2**63 - 1
_UNNAMED = TopicPartition("topic", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionConfig:
    """Kafka's own settings under its own names and defaults; times in milliseconds, sizes in bytes.

    `compression_codec` None keeps the producer's, as `compression.type=producer` does.
    """

    topic_partition: TopicPartition = _UNNAMED
    segment_bytes: int = 1024**3
    segment_ms: int = 604_800_000
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = ANY_AGE_MS
    message_timestamp_after_max_ms: int = 3_600_000
    is_compacted: bool = False
    compression_codec: Codec | None = None
    transaction_partition_verification_enable: bool = True
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS

    def new_manager(self, snapshots: MutableMapping[int, bytes] | None = None) -> ProducerStateManager:
        """A manager with these settings, and no producers yet."""
        return ProducerStateManager(
            snapshots,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            max_transaction_timeout_ms=self.max_transaction_timeout_ms,
        )

    def new_segment(self, base_offset: int, now: int) -> LogSegment:
        """An empty segment with these settings."""
        return LogSegment(
            base_offset=base_offset, created=now, index_interval_bytes=self.index_interval_bytes
        )
