"""Loads a partition's directory into a log, as a starting broker does (facts §6.1).

Files are a mapping from name to bytes and are not changed. After a clean shutdown everything is trusted.
Otherwise the segments from the recovery point on are read, checked, and truncated at the first batch that is
not whole and valid.
"""

from collections.abc import Mapping

from spark_jobs.kafka.errors import CorruptIndex, CorruptTxnIndex
from spark_jobs.kafka.formats.checkpoints import LeaderEpochs, read_leader_epochs
from spark_jobs.kafka.formats.indexes import (
    AbortedTxn,
    OffsetPosition,
    TimestampOffset,
    read_offset_index,
    read_time_index,
    read_txn_index,
)
from spark_jobs.kafka.formats.legacy import LegacyHeader
from spark_jobs.kafka.formats.log_files import LEADER_EPOCH_CHECKPOINT
from spark_jobs.kafka.log.log_directory import SegmentFiles, recovered_files, segments_in, snapshots_in
from spark_jobs.kafka.log.segment import ScannedBatch, scan_result
from spark_jobs.sample.broker.log_segment import InvalidOffset, LogSegment
from spark_jobs.sample.broker.partition_log import PartitionLog
from spark_jobs.sample.broker.producer_state_manager import (
    ProducerStateManager,
    rebuild_producer_state,
    replay_batch,
)
from spark_jobs.sample.broker.replica_log import PartitionConfig


def load(
    files: Mapping[str, bytes],
    *,
    clean: bool,
    now: int,
    config: PartitionConfig | None = None,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    high_watermark: int = 0,
    leader_epoch: int = 0,
) -> PartitionLog:
    """The log in `files`; recovery point, log start and high watermark as checkpointed, or 0."""
    loader = _Loader(
        PartitionConfig() if config is None else config, recovered_files(files), log_start_offset, now
    )
    loader.open_segments()
    if not clean:
        loader.recover_from(recovery_point)
    loader.ensure_active_segment()
    manager = loader.new_manager()
    log = PartitionLog(
        loader.config,
        leader_epoch=leader_epoch,
        log_start_offset=max(log_start_offset, loader.segments[0].base_offset),
        producer_state_manager=manager,
        segments=loader.segments,
        leader_epochs=loader.bounded_leader_epochs(),
    )
    manager.remove_stray_snapshots(segment.base_offset for segment in log.segments)
    start, end = log.log_start_offset, log.log_end_offset
    rebuild_producer_state(manager, log.segments, start, end, now=now, clean=clean)
    log.update_high_watermark(high_watermark)
    return log


class _Loader:
    """A directory being loaded; every manager shares `snapshots`, as it would share the directory."""

    def __init__(
        self, config: PartitionConfig, files: Mapping[str, bytes], log_start_offset: int, now: int
    ) -> None:
        self.config, self.log_start_offset, self.now = config, log_start_offset, now
        self.segment_files = segments_in(files)
        self.snapshots = snapshots_in(files)
        self.segments: list[LogSegment] = []
        epochs = read_leader_epochs(files.get(LEADER_EPOCH_CHECKPOINT, b""), source=LEADER_EPOCH_CHECKPOINT)
        self.leader_epochs = LeaderEpochs(entries=epochs)

    def new_manager(self) -> ProducerStateManager:
        return self.config.new_manager(self.snapshots)

    def open_segments(self) -> None:
        """Opens all segments; recovers if an offset index is missing or a transaction index is corrupt."""
        for files in self.segment_files:
            segment = self._open(files)
            self.segments.append(segment)
            try:
                segment.aborted = _read_aborted(files)
                is_intact = files.index is not None
            except CorruptTxnIndex:
                is_intact = False
            if not is_intact:
                self._recover(segment)

    def _open(self, files: SegmentFiles) -> LogSegment:
        segment = self.config.new_segment(files.base_offset, self.now)
        segment.data += files.log
        segment.batches += scan_result(files.log, check_crc=False).batches
        segment.offset_index, segment.time_index = _read_index(files), _read_time_index(files)
        return segment

    def recover_from(self, recovery_point: int) -> None:
        """Recovers every segment that may not have been flushed; deletes the segments after a truncation."""
        first = max((s.base_offset for s in self.segments if s.base_offset <= recovery_point), default=0)
        for index, segment in enumerate(self.segments):
            if segment.base_offset >= first and self._recover(segment) > 0:
                self._delete(index + 1)
                return

    def _delete(self, index: int) -> None:
        """Delete the segments from `index` on, and the snapshots at their bases."""
        for segment in self.segments[index:]:
            self.snapshots.pop(segment.base_offset, None)
        del self.segments[index:]

    def _recover(self, segment: LogSegment) -> int:
        """Rebuilds state and indexes from the segment's valid batches; returns the bytes truncated."""
        manager, size = self.new_manager(), segment.size
        base = segment.base_offset
        rebuild_producer_state(manager, self.segments, self.log_start_offset, base, now=self.now, clean=False)
        segment.reset()
        result = scan_result(bytes(segment.data))
        del segment.data[result.valid_bytes :]
        try:
            for batch in result.batches:
                self._recover_batch(manager, segment, batch)
        except InvalidOffset:
            segment.reset()
            segment.data.clear()
            return size
        segment.index_max_timestamp()
        segment.bytes_since_last_index_entry = 0  # recovery has its own count, the next append starts from 0
        manager.take_snapshot()
        return size - segment.size

    def _recover_batch(self, manager: ProducerStateManager, segment: LogSegment, batch: ScannedBatch) -> None:
        segment.note(batch)
        if isinstance(batch.header, LegacyHeader):
            return
        epoch = batch.header.partition_leader_epoch
        if epoch > self.leader_epochs.latest_epoch:
            self.leader_epochs = self.leader_epochs.assign(epoch, batch.header.base_offset)
        replay_batch(manager, segment, batch)

    def ensure_active_segment(self) -> None:
        """A log that ends before its start restarts there, without producer state."""
        if self.segments and self.segments[-1].next_offset < self.log_start_offset:
            self.segments.clear()
            self.snapshots.clear()
            self.leader_epochs = LeaderEpochs()
        if not self.segments:
            self.segments.append(self.config.new_segment(self.log_start_offset, self.now))

    def bounded_leader_epochs(self) -> LeaderEpochs:
        """The leader epochs of the offsets that the log still holds."""
        end_offset = self.segments[-1].next_offset
        return self.leader_epochs.truncate_from_end(end_offset).truncate_from_start(self.log_start_offset)


def _read_aborted(files: SegmentFiles) -> tuple[AbortedTxn, ...]:
    source = f"{files.base_offset:020d}.txnindex"
    return read_txn_index(files.txn_index or b"", base_offset=files.base_offset, source=source)


def _read_index(files: SegmentFiles) -> list[OffsetPosition]:
    """The entries as stored; a broker does not check them while loading, so invalid ones are unused."""
    try:
        return list(read_offset_index(files.index or b"", base_offset=files.base_offset))
    except CorruptIndex:
        return []


def _read_time_index(files: SegmentFiles) -> list[TimestampOffset]:
    try:
        return list(read_time_index(files.time_index or b"", base_offset=files.base_offset))
    except CorruptIndex:
        return []
