"""Files beside segments: checkpoints that brokers write (facts §1.10), and copy times of copying tools.

A file `onceover-copy.json` beside the copied log directories records when they were copied:

    {"format": 1, "copied": [
      {"path": "", "started_at": "2026-11-17T01:00:00Z", "finished_at": "2026-11-17T01:12:30Z"},
      {"path": "__transaction_state-",
       "started_at": "2026-11-17T01:12:31Z", "finished_at": "2026-11-17T01:12:40Z"}]}

`path` is a prefix of paths, relative to the file's directory; the longest match counts. The tool that copies
writes the file. Modification and upload times do not show when bytes were read at the broker: a copy of a
copy has a later time, and `rsync -a` keeps the time of the broker's last write.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, Self

from pydantic import AwareDatetime, ValidationError, model_validator

from spark_jobs.config.fields import Frozen, refuse
from spark_jobs.kafka.errors import CorruptCheckpoint
from spark_jobs.kafka.formats.checkpoints import read_leader_epochs, read_offsets
from spark_jobs.kafka.formats.log_files import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.manifest import SEGMENT_ROLES, Manifest, ManifestEntry, ObjectRole, StagedObjects
from spark_jobs.lake.object_store import printable

COPY_TIMES = "onceover-copy.json"
LOG_DIRECTORY_FILES = frozenset(
    {
        RECOVERY_POINT_CHECKPOINT,
        LOG_START_OFFSET_CHECKPOINT,
        REPLICATION_OFFSET_CHECKPOINT,
        CLEANER_OFFSET_CHECKPOINT,
        CLEAN_SHUTDOWN_FILE,
        META_PROPERTIES,
    }
)
CheckpointedOffsets = dict[TopicPartition, int]
OffsetsByDirectory = dict[tuple[str, str], CheckpointedOffsets]
"""By source and log directory: one per replica."""


def read_checkpoints(manifest: Manifest, staged: StagedObjects, name: str) -> CheckpointedOffsets:
    """The highest offset of each partition among the files of that name."""
    found: CheckpointedOffsets = {}
    for offsets in read_by_directory(manifest, staged, name).values():
        for partition, offset in offsets.items():
            found[partition] = max(found.get(partition, offset), offset)
    return found


def read_by_directory(manifest: Manifest, staged: StagedObjects, name: str) -> OffsetsByDirectory:
    """The offsets in the files of that name; an unreadable file is ignored, as a starting broker does.

    Files use Kafka's topic names, and refer to the logs in the same directory.
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
    """The partitions of recreated topics, by source, log directory and their name in Kafka."""
    found = {}
    for entry in manifest.entries:
        partition = TopicPartition(entry.topic, entry.partition)
        if partition != partition.in_kafka:
            found[entry.source, entry.log_directory, partition.in_kafka] = partition
    return found


def _read(entry: ManifestEntry, staged: StagedObjects) -> CheckpointedOffsets | None:
    try:
        written = read_offsets(staged.read(entry), source=f"{entry.source}/{entry.path}")
    except CorruptCheckpoint:
        return None
    return {TopicPartition(each.topic, each.partition): each.offset for each in written}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStarts:
    """Where the copies of a partition's log begin, according to the brokers' checkpoints.

    All offsets below `proven` were deleted. `missing_from` is the start of a log whose copied segments begin
    later; None if there is no such copy.
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
    """The log starts by `leader-epoch-checkpoint`; `log_start_offset` is from `log-start-offset-checkpoint`.

    `first_segments` are the base offsets of the first segments by source and directory. A broker that deletes
    segments moves its oldest leader epoch to the new start of its log (facts §1.11). The other checkpoint
    lists a partition only while its log begins inside a segment. An oldest epoch after the first segment
    proves nothing: brokers lose epochs in a crash. Epochs that were uploaded with a segment prove nothing
    either: retention may have deleted more since then.
    """
    proven, claimed = log_start_offset, list[int]()
    for entry in (each for each in checkpoints if each.name == LEADER_EPOCH_CHECKPOINT):
        first = first_segments.get((entry.source, entry.directory))
        with suppress(CorruptCheckpoint):
            epochs = read_leader_epochs(staged.read(entry), source=f"{entry.source}/{entry.path}")
            if first is not None and epochs and epochs[0].start_offset == first:
                proven = max(proven, first)
            elif first is not None and epochs and epochs[0].start_offset < first:
                claimed.append(epochs[0].start_offset)
    missing_from = max(min(claimed), proven) if claimed else None
    return LogStarts(proven=proven, missing_from=missing_from)


class CopiedPath(Frozen):
    """When everything whose path begins with `path` was copied."""

    path: str
    started_at: AwareDatetime
    finished_at: AwareDatetime

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.finished_at < self.started_at:
            raise refuse("'finished_at' not before 'started_at'")
        return self


class CopyTimes(Frozen):
    """The whole file."""

    format: Literal[1]
    copied: tuple[CopiedPath, ...]


CopyFile = tuple[ManifestEntry, CopyTimes]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPartitions:
    """Latest start and end of copying by partition, in ms since 1970; `problems` are sentences."""

    started: dict[TopicPartition, int] = field(default_factory=dict)
    finished: dict[TopicPartition, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def copied_partitions(entries: Iterable[ManifestEntry], staged: StagedObjects) -> CopiedPartitions:
    """The copy times in the files among `entries`, for the partitions among `entries`."""
    known = tuple(entries)
    files: list[CopyFile] = []
    problems: list[str] = []
    for entry in known:
        if entry.role is ObjectRole.COPY_TIMES:
            try:
                files.append((entry, CopyTimes.model_validate_json(staged.read(entry))))
            except ValidationError as error:
                problems.append(_problem_of(entry, error))
    started: dict[TopicPartition, int] = {}
    finished: dict[TopicPartition, int] = {}
    for partition, times in _times(known, files) if files else ():
        began, ended = _milliseconds(times.started_at), _milliseconds(times.finished_at)
        started[partition] = max(started.get(partition, began), began)
        finished[partition] = max(finished.get(partition, ended), ended)
    return CopiedPartitions(started=started, finished=finished, problems=tuple(problems))


def _problem_of(entry: ManifestEntry, error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "the file"
    return (
        f"{entry.source}: {printable(entry.path)}: not readable as copy times, so it proves nothing: "
        f"{printable(where)}: {printable(first['msg'])}"
    )


def _milliseconds(time: datetime) -> int:
    return round((time - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)


def _times(
    entries: Iterable[ManifestEntry], files: Iterable[CopyFile]
) -> Iterator[tuple[TopicPartition, CopiedPath]]:
    """The partition of every segment, with the longest prefix that matches the segment's path."""
    rooted = [
        (file.source, f"{file.directory}/{each.path}" if file.directory else each.path, each)
        for file, times in files
        for each in times.copied
    ]
    for entry in entries:
        if entry.role in SEGMENT_ROLES:
            fitting = [
                (len(prefix), each)
                for source, prefix, each in rooted
                if source == entry.source and entry.path.startswith(prefix)
            ]
            if fitting:
                yield (
                    TopicPartition(entry.topic, entry.partition),
                    max(fitting, key=lambda found: found[0])[1],
                )
