"""What brokers wrote down about the partitions of their log directories (facts §1.10)."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from spark_jobs.protocol.checkpoint import read_leader_epochs, read_offsets
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
    """The files of that name; one that cannot be read says nothing, as for a broker that starts.

    Files have Kafka's names of topics; what they say is of the log that lies in the same directory.
    """
    files = {
        (entry.source, entry.log_directory): _read(entry, staged)
        for entry in manifest.entries
        if entry.role is ObjectRole.LOG_DIRECTORY and entry.name == name
    }
    later = _later_logs(manifest)
    return {
        directory: {
            later.get((*directory, partition), partition): offset for partition, offset in found.items()
        }
        for directory, found in files.items()
        if found is not None
    }


def _later_logs(manifest: Manifest) -> dict[tuple[str, str, TopicPartition], TopicPartition]:
    """By source, log directory and Kafka's name the partitions of topics that were created anew."""
    found = {}
    for entry in manifest.entries:
        partition = TopicPartition(entry.topic, entry.partition)
        if partition != partition.in_kafka:
            found[entry.source, entry.log_directory, partition.in_kafka] = partition
    return found


def _read(entry: ManifestEntry, staged: StagedObjects) -> Offsets | None:
    try:
        written = read_offsets(staged.read(entry), source=f"{entry.source}/{entry.path}")
    except CorruptCheckpoint:
        return None
    return {TopicPartition(each.topic, each.partition): each.offset for each in written}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStarts:
    """Where the copies of a partition's log begin, as their brokers wrote it down.

    Everything below `proven` was deleted. `missing_from`: a copy's log began there, but its segments begin
    later; None if no copy says so.
    """

    proven: int = 0
    missing_from: int | None = None


def read_log_starts(
    first_segments: Mapping[tuple[str, str], int],
    checkpoints: Iterable[ManifestEntry],
    staged: StagedObjects,
    *,
    log_start_offset: int = 0,
) -> LogStarts:
    """What `leader-epoch-checkpoint` tells; `log_start_offset` is what `log-start-offset-checkpoint` says.

    `first_segments` are the base offsets of the first segments by source and directory. A broker that deletes
    segments moves its oldest leader epoch to where its log begins then (facts §1.11). The other checkpoint
    names a partition only while its log begins inside a segment. An oldest epoch behind the first segment
    proves nothing: brokers lose epochs in a crash.
    """
    proven, claimed = log_start_offset, list[int]()
    for entry in checkpoints:
        first = first_segments.get((entry.source, entry.directory))
        with suppress(CorruptCheckpoint):
            epochs = read_leader_epochs(staged.read(entry), source=f"{entry.source}/{entry.path}")
            if first is not None and epochs and epochs[0].start_offset == first:
                proven = max(proven, first)
            elif first is not None and epochs and epochs[0].start_offset < first:
                claimed.append(epochs[0].start_offset)
    missing_from = max(min(claimed), proven) if claimed else None
    return LogStarts(proven=proven, missing_from=missing_from)
