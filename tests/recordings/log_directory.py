"""A recorded log directory: its files by partition, decoded only as far as a comparison needs it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from spark_jobs.kafka.formats.checkpoints import EpochEntry, read_leader_epochs, read_offsets
from spark_jobs.kafka.formats.log_files import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    LogFileKind,
    parse_file_name,
    parse_partition_dir,
)
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.log.log_directory import recovered_files
from spark_jobs.kafka.log.segment import scan_result
from spark_jobs.kafka.topic_partition import TopicPartition

METADATA_TOPIC = "__cluster_metadata"
TRANSACTION_TOPIC = "__transaction_state"
OFFSETS_TOPIC = "__consumer_offsets"
KINDS = (LogFileKind.LOG, LogFileKind.SNAPSHOT, LogFileKind.TXN_INDEX)
INTERNAL_TOPICS = frozenset({METADATA_TOPIC, TRANSACTION_TOPIC, OFFSETS_TOPIC})


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """One batch of a recorded log and where it is in its segment."""

    header: RecordBatchHeader
    data: bytes
    segment: int
    position: int


@dataclass(frozen=True, kw_only=True)
class RecordedPartition:
    """The files of one partition that matter here, by the offset in their name."""

    topic_partition: TopicPartition
    segments: Mapping[int, bytes]
    snapshots: Mapping[int, bytes]
    txn_indexes: Mapping[int, bytes]
    leader_epochs: tuple[EpochEntry, ...]

    @cached_property
    def batches(self) -> tuple[StoredBatch, ...]:
        """Every whole batch, in offset order, up to the first corruption."""
        return tuple(
            batch for base_offset in sorted(self.segments) for batch in self._batches_of(base_offset)
        )

    @cached_property
    def batch_at(self) -> Mapping[int, StoredBatch]:
        """Batches by their base offset."""
        return {batch.header.base_offset: batch for batch in self.batches}

    def leader_epoch_at(self, offset: int) -> int:
        """The leader epoch of the recorded broker when `offset` was written; 0 if unknown.

        A batch that begins there has it; the checkpoint may have lost the epochs before the log start.
        """
        if offset in self.batch_at:
            return self.batch_at[offset].header.partition_leader_epoch
        return max((e.epoch for e in self.leader_epochs if e.start_offset <= offset), default=0)

    def _batches_of(self, base_offset: int) -> Iterator[StoredBatch]:
        data = self.segments[base_offset]
        for batch in scan_result(data, source=f"{self.topic_partition}/{base_offset}").batches:
            if isinstance(batch.header, RecordBatchHeader):
                yield StoredBatch(
                    header=batch.header,
                    data=data[batch.position : batch.end],
                    segment=base_offset,
                    position=batch.position,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirectory:
    """A broker's log directory as it was copied; `clean`: after a clean shutdown."""

    partitions: Mapping[TopicPartition, RecordedPartition]
    clean: bool
    recovery_points: Mapping[TopicPartition, int]
    log_start_offsets: Mapping[TopicPartition, int]
    cleaner_offsets: Mapping[TopicPartition, int]

    def of_topic(self, topic: str) -> tuple[RecordedPartition, ...]:
        return tuple(p for tp, p in sorted(self.partitions.items()) if tp.topic == topic)

    @property
    def data_partitions(self) -> tuple[RecordedPartition, ...]:
        """Partitions that clients write to."""
        return tuple(p for tp, p in sorted(self.partitions.items()) if tp.topic not in INTERNAL_TOPICS)


NO_LOG_DIRECTORY = LogDirectory(
    partitions={}, clean=True, recovery_points={}, log_start_offsets={}, cleaner_offsets={}
)


def read_log_directory(root: Path) -> LogDirectory:
    """The directory at `root`; KRaft's own log and directories to be deleted are skipped."""
    found = ((parse_partition_dir(path.name), path) for path in sorted(root.iterdir()) if path.is_dir())
    partitions = {
        TopicPartition(name.topic, name.partition): path
        for name, path in found
        if name is not None and name.suffix is None and name.topic != METADATA_TOPIC
    }
    return LogDirectory(
        partitions={tp: _read_partition(tp, path) for tp, path in partitions.items()},
        clean=(root / CLEAN_SHUTDOWN_FILE).exists(),
        recovery_points=_offsets(root / RECOVERY_POINT_CHECKPOINT),
        log_start_offsets=_offsets(root / LOG_START_OFFSET_CHECKPOINT),
        cleaner_offsets=_offsets(root / CLEANER_OFFSET_CHECKPOINT),
    )


def _read_partition(topic_partition: TopicPartition, root: Path) -> RecordedPartition:
    files = _files(root)
    epochs = root / LEADER_EPOCH_CHECKPOINT
    return RecordedPartition(
        topic_partition=topic_partition,
        segments=files[LogFileKind.LOG],
        snapshots=files[LogFileKind.SNAPSHOT],
        txn_indexes=files[LogFileKind.TXN_INDEX],
        leader_epochs=read_leader_epochs(epochs.read_bytes(), source=str(epochs)) if epochs.exists() else (),
    )


def _files(root: Path) -> dict[LogFileKind, dict[int, bytes]]:
    """Files by kind and offset, once interrupted deletions and swaps are recovered as a broker does."""
    named = ((path, parse_file_name(path.name)) for path in sorted(root.iterdir()))
    found = {path.name: path.read_bytes() for path, file in named if file and file.kind in KINDS}
    files: dict[LogFileKind, dict[int, bytes]] = {kind: {} for kind in KINDS}
    for name, data in recovered_files(found).items():
        file = parse_file_name(name)
        if file is not None:
            files[file.kind][file.offset] = data
    return files


def _offsets(path: Path) -> dict[TopicPartition, int]:
    if not path.exists():
        return {}
    entries = read_offsets(path.read_bytes(), source=str(path))
    return {TopicPartition(entry.topic, entry.partition): entry.offset for entry in entries}
