"""What brokers wrote down about the partitions of their log directories (facts §1.10)."""

from spark_jobs.protocol.checkpoint import read_offsets
from spark_jobs.protocol.errors import CorruptCheckpoint
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.manifest import Manifest, ManifestEntry, ObjectRole
from spark_jobs.storage.staged import StagedObjects

Offsets = dict[TopicPartition, int]
OffsetsByDirectory = dict[tuple[str, str], Offsets]
"""By source and log directory: one per replica."""


def read_checkpoints(manifest: Manifest, staged: StagedObjects, name: str) -> Offsets:
    """The highest offset of each partition among the files of that name."""
    found: Offsets = {}
    for offsets in read_by_directory(manifest, staged, name).values():
        for partition, offset in offsets.items():
            found[partition] = max(found.get(partition, offset), offset)
    return found


def read_by_directory(manifest: Manifest, staged: StagedObjects, name: str) -> OffsetsByDirectory:
    """The files of that name; one that cannot be read says nothing, as for a broker that starts."""
    files = {
        (entry.source, entry.log_directory): _read(entry, staged)
        for entry in manifest.entries
        if entry.role is ObjectRole.LOG_DIRECTORY and entry.name == name
    }
    return {directory: offsets for directory, offsets in files.items() if offsets is not None}


def _read(entry: ManifestEntry, staged: StagedObjects) -> Offsets | None:
    try:
        written = read_offsets(staged.read(entry), source=f"{entry.source}/{entry.path}")
    except CorruptCheckpoint:
        return None
    return {TopicPartition(each.topic, each.partition): each.offset for each in written}
