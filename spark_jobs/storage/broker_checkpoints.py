"""What brokers wrote down about the partitions of their log directories (facts §1.10)."""

from spark_jobs.protocol.checkpoint import read_offsets
from spark_jobs.protocol.errors import CorruptCheckpoint
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.manifest import Manifest, ObjectRole
from spark_jobs.storage.staged import StagedObjects


def read_checkpoints(manifest: Manifest, staged: StagedObjects, name: str) -> dict[TopicPartition, int]:
    """The highest offset of each partition among the files of that name, one per replica.

    An unreadable checkpoint says nothing, as for a broker that starts.
    """
    found: dict[TopicPartition, int] = {}
    for entry in manifest.entries:
        if entry.role is not ObjectRole.LOG_DIRECTORY or entry.name != name:
            continue
        try:
            written = read_offsets(staged.read(entry), source=f"{entry.source}/{entry.path}")
        except CorruptCheckpoint:
            continue
        for each in written:
            partition = TopicPartition(each.topic, each.partition)
            found[partition] = max(found.get(partition, each.offset), each.offset)
    return found
