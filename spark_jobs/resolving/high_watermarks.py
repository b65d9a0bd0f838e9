"""High watermarks as brokers wrote them down (facts §1.10)."""

from spark_jobs.protocol.checkpoint import read_offsets
from spark_jobs.protocol.errors import CorruptCheckpoint
from spark_jobs.protocol.log_files import REPLICATION_OFFSET_CHECKPOINT
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.manifest import Manifest, ObjectRole
from spark_jobs.storage.staged import StagedObjects


def read_high_watermarks(manifest: Manifest, staged: StagedObjects) -> dict[TopicPartition, int]:
    """The highest of each partition among all replicas: what one of them knows to be replicated, is.

    An unreadable checkpoint says nothing, as for a broker that starts.
    """
    found: dict[TopicPartition, int] = {}
    for entry in manifest.entries:
        if entry.role is not ObjectRole.LOG_DIRECTORY or entry.name != REPLICATION_OFFSET_CHECKPOINT:
            continue
        try:
            written = read_offsets(staged.read(entry), source=f"{entry.source}/{entry.path}")
        except CorruptCheckpoint:
            continue
        for each in written:
            partition = TopicPartition(each.topic, each.partition)
            found[partition] = max(found.get(partition, each.offset), each.offset)
    return found
