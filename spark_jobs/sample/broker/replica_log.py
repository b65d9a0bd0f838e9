"""One replica's log in memory: segments, rolls, watermarks, deletion, truncation (facts §4.1, §6.3).

Bytes in, bytes out; the clock is an argument. Appending is in `partition_log`.
"""

from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass

from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.kafka.formats.checkpoints import LeaderEpochs
from spark_jobs.kafka.formats.indexes import AbortedTxn
from spark_jobs.kafka.formats.record_batch import Codec, TimestampType
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.sample.broker.log_segment import LogSegment, base_offset_of, partition_files
from spark_jobs.sample.broker.producer_state_manager import (
    MAX_TRANSACTION_TIMEOUT_MS,
    PRODUCER_ID_EXPIRATION_MS,
    ProducerStateManager,
    rebuild_producer_state,
)

ANY_AGE_MS = 2**63 - 1
_UNNAMED = TopicPartition("topic", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionConfig:
    """Topic and broker settings with Kafka's names and defaults (facts §0); milliseconds and bytes.

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


class CannotRoll(OnceoverError):
    """The active segment begins after the log's end, as a gap that a follower rejected can leave it."""


class ReplicaLog:
    """A partition's log at a broker, and every operation on it except appends."""

    def __init__(
        self,
        config: PartitionConfig | None = None,
        *,
        leader_epoch: int = 0,
        log_start_offset: int = 0,
        now: int = 0,
        producer_state_manager: ProducerStateManager | None = None,
        segments: Iterable[LogSegment] = (),
        leader_epochs: LeaderEpochs | None = None,
    ) -> None:
        self.config = PartitionConfig() if config is None else config
        self.leader_epoch = leader_epoch
        self.leader_epochs = LeaderEpochs() if leader_epochs is None else leader_epochs
        self.manager = self.config.new_manager() if producer_state_manager is None else producer_state_manager
        self.segments = list(segments) or [self.config.new_segment(log_start_offset, now)]
        self.log_start_offset = log_start_offset
        self.high_watermark = log_start_offset
        self.log_end_offset = self.segments[-1].next_offset

    def become_leader(self, leader_epoch: int) -> None:
        """Makes this replica the leader of `leader_epoch`, which begins at the log end."""
        self.leader_epoch = leader_epoch
        self.leader_epochs = self.leader_epochs.assign(leader_epoch, self.log_end_offset)

    def roll(self, now: int, expected_next_offset: int = 0) -> LogSegment:
        """Rolls a new segment and writes a snapshot at its base (facts §2.12)."""
        base, active = max(expected_next_offset, self.log_end_offset), self.segments[-1]
        if base < active.base_offset or (base == active.base_offset and active.size):
            raise CannotRoll(f"no segment can begin at {base}, the active one begins at {active.base_offset}")
        if self.segments[-1].base_offset == base:
            self.segments.pop()
        else:
            self.segments[-1].index_max_timestamp()
        self.segments.append(self.config.new_segment(base, now))
        self.manager.update_map_end_offset(base)
        self.manager.take_snapshot()
        return self.segments[-1]

    # -- watermarks ----------------------------------------------------------------------------------------

    def update_high_watermark(self, offset: int) -> None:
        """Sets the high watermark: everything before `offset` is replicated; kept within the log."""
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.manager.on_high_watermark_updated(self.high_watermark)

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest unstable transaction, at least that of the batch with the log start."""
        first = self.manager.first_unstable_offset
        return None if first is None else self._batch_start(max(first, self.log_start_offset))

    @property
    def last_stable_offset(self) -> int:
        """Up to (excluding) here a read_committed consumer may read (facts §4.1)."""
        first = self.first_unstable_offset
        return first if first is not None and first < self.high_watermark else self.high_watermark

    def _batch_start(self, offset: int) -> int:
        for segment in self.segments:
            index = segment.index_of(offset)
            if index < len(segment.batches):
                return base_offset_of(segment.batches[index])
        return self.log_end_offset

    # -- deleting and truncating ---------------------------------------------------------------------------

    def delete_records(self, offset: int) -> None:
        """Move the log start up to `offset` (-1: the high watermark); producers stay known (facts §2.10)."""
        target = self.high_watermark if offset < 0 else offset
        if not target <= self.high_watermark:
            raise ValueError(f"offset {target} is above the high watermark {self.high_watermark}")
        self.increment_log_start_offset(target)

    def increment_log_start_offset(self, offset: int) -> None:
        """Raises the log start, as DeleteRecords and retention do; a lower offset changes nothing."""
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        self.leader_epochs = self.leader_epochs.truncate_from_start(offset)
        self.manager.on_log_start_offset_incremented(offset)

    def delete_old_segments(self) -> None:
        """Drop segments that end before the log start, and the snapshots at their bases."""
        while len(self.segments) > 1 and self.segments[1].base_offset <= self.log_start_offset:
            self.manager.remove_snapshot(self.segments.pop(0).base_offset)

    def truncate_to(self, offset: int, *, now: int) -> None:
        """Truncates the log at the batch that holds `offset`, as a follower does (facts §6.3)."""
        if offset >= self.log_end_offset:
            self.leader_epochs = self.leader_epochs.truncate_from_end(offset)
            return
        if self.segments[0].base_offset > offset:
            self.truncate_fully_and_start_at(offset, now=now)
            return
        while self.segments[-1].base_offset > offset:
            self.manager.remove_snapshot(self.segments.pop().base_offset)
        self.segments[-1].truncate_to(offset, now=now)
        self.log_end_offset = offset
        self.leader_epochs = self.leader_epochs.truncate_from_end(offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self._rebuild(offset, now)

    def truncate_fully_and_start_at(self, offset: int, *, now: int) -> None:
        """Deletes the whole log and restarts at `offset`."""
        self.segments = [self.config.new_segment(offset, now)]
        self.leader_epochs = LeaderEpochs()
        self.manager.truncate_fully_and_start_at(offset)
        self.log_start_offset = self.log_end_offset = offset
        self._rebuild(offset, now)

    def _rebuild(self, offset: int, now: int) -> None:
        rebuild_producer_state(
            self.manager, self.segments, self.log_start_offset, offset, now=now, clean=False
        )
        self.update_high_watermark(min(self.high_watermark, self.log_end_offset))

    # -- closing, files ------------------------------------------------------------------------------------

    def close(self) -> None:
        """A clean shutdown: a snapshot at the log end, the last timestamps indexed."""
        self.manager.take_snapshot()
        self.segments[-1].index_max_timestamp()

    @property
    def snapshots(self) -> dict[int, bytes]:
        return dict(self.manager.snapshots)

    @property
    def aborted(self) -> tuple[AbortedTxn, ...]:
        """All entries of all transaction indexes, in offset order."""
        return tuple(txn for segment in self.segments for txn in segment.aborted)

    def files(self) -> dict[str, bytes]:
        """The partition's directory as it is on disk; name → bytes."""
        return partition_files(self.segments, self.manager.snapshots, self.leader_epochs)
