"""When a source was copied, as a file beside the copied log directories says: `onceover-copy.json`.

    {"format": 1, "copied": [
      {"path": "", "started_at": "2026-11-17T01:00:00Z", "finished_at": "2026-11-17T01:12:30Z"},
      {"path": "__transaction_state-",
       "started_at": "2026-11-17T01:12:31Z", "finished_at": "2026-11-17T01:12:40Z"}]}

`path` is how paths begin, counted from the directory that the file is in; the longest one that fits counts.
The tool that copies writes it. Modification and upload times do not say when bytes were read at the broker: a
copy of a copy is younger than what it shows, and `rsync -a` keeps the time of the broker's last write.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, Self

from pydantic import AwareDatetime, ValidationError, model_validator

from spark_jobs.config.fields import Frozen, refuse
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.keys import printable
from spark_jobs.storage.manifest import SEGMENT_ROLES, ManifestEntry, ObjectRole
from spark_jobs.storage.staged import StagedObjects


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
    """By partition when copying it began and ended, the latest of its copies; `problems` are sentences."""

    started: dict[TopicPartition, int] = field(default_factory=dict)
    finished: dict[TopicPartition, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def copied_partitions(entries: Iterable[ManifestEntry], staged: StagedObjects) -> CopiedPartitions:
    """What the files among `entries` say about the partitions among them."""
    known = tuple(entries)
    files: list[CopyFile] = []
    problems: list[str] = []
    for entry in known:
        if entry.role is ObjectRole.COPY_TIMES:
            try:
                files.append((entry, CopyTimes.model_validate_json(staged.read(entry))))
            except ValidationError as error:
                problems.append(_problem(entry, error))
    started: dict[TopicPartition, int] = {}
    finished: dict[TopicPartition, int] = {}
    for partition, times in _times(known, files) if files else ():
        began, ended = _milliseconds(times.started_at), _milliseconds(times.finished_at)
        started[partition] = max(started.get(partition, began), began)
        finished[partition] = max(finished.get(partition, ended), ended)
    return CopiedPartitions(started=started, finished=finished, problems=tuple(problems))


def _problem(entry: ManifestEntry, error: ValidationError) -> str:
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
    """Of every segment the longest path that its own begins with."""
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
