"""Loads a recorded partition with our own loader, as a starting broker would."""

from spark_jobs.kafka.formats.checkpoints import write_leader_epochs
from spark_jobs.kafka.formats.log_files import LEADER_EPOCH_CHECKPOINT, LogFileKind, segment_file_name
from spark_jobs.sample.broker.log_loader import load
from spark_jobs.sample.broker.partition_log import PartitionLog
from spark_jobs.sample.broker.replica_log import PartitionConfig
from tests.recordings.log_directory import LogDirectory, RecordedPartition
from tests.recordings.recording import PartitionOffsets

NOW = 0
"""At time 0 no producer is idle, so none expires while a recording is read."""


def load_recorded(
    partition: RecordedPartition, logs: LogDirectory, offsets: PartitionOffsets | None
) -> PartitionLog:
    """The partition as its broker would load it: trusted after a clean shutdown, recovered after a kill.

    A killed broker may not have checkpointed its log start; then the last reported one counts.
    """
    topic_partition = partition.topic_partition
    log = load(
        _files(partition),
        clean=logs.clean,
        now=NOW,
        config=PartitionConfig(topic_partition=topic_partition),
        recovery_point=logs.recovery_points.get(topic_partition, 0),
        log_start_offset=logs.log_start_offsets.get(topic_partition, 0),
    )
    log.update_high_watermark(log.log_end_offset)
    if offsets is not None and not logs.clean:
        log.delete_records(min(offsets.log_start_offset, log.high_watermark))
    return log


def _files(partition: RecordedPartition) -> dict[str, bytes]:
    """Its directory; an offset index need only be there, what it holds follows from the log."""
    files = {LEADER_EPOCH_CHECKPOINT: write_leader_epochs(partition.leader_epochs)}
    for kind, found in (
        (LogFileKind.LOG, partition.segments),
        (LogFileKind.INDEX, dict.fromkeys(partition.segments, b"")),
        (LogFileKind.TXN_INDEX, partition.txn_indexes),
        (LogFileKind.SNAPSHOT, partition.snapshots),
    ):
        files |= {segment_file_name(offset, kind): data for offset, data in found.items()}
    return files
