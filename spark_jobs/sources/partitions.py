"""The partitions of a run: their copies, and which of them are judged."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.kafka.formats.log_files import CLEANER_OFFSET_CHECKPOINT
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.index_rows import IndexedCopy, read_index_files, segment_places
from spark_jobs.lake.manifest import NO_PARTITION, SEGMENT_ROLES, Manifest, ManifestEntry, StagedObjects
from spark_jobs.lake.run_folder import RunFolder
from spark_jobs.sources.broker_files import read_checkpoints
from spark_jobs.sources.registry import reader_of

PRECEDENCE = (AppendOrigin.CLIENT, AppendOrigin.REPLICATION)
"""Which copies of a partition are judged: captures of clients' batches take precedence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPartition:
    """One partition; where clients' batches are judged, brokers' logs of it are `others`: not judged.

    `entries` are all its staged objects, in arrival order.
    """

    partition: TopicPartition
    origin: AppendOrigin
    copies: tuple[IndexedCopy, ...]
    others: tuple[IndexedCopy, ...]
    entries: tuple[ManifestEntry, ...]

    @property
    def rows(self) -> int:
        return sum(copy.rows for copy in (*self.copies, *self.others))


def run_partitions(folder: RunFolder, manifest: Manifest, settings: Settings) -> tuple[RunPartition, ...]:
    """Every partition with index files, by topic and number."""
    entries = _by_partition(manifest.entries)
    found = read_index_files(folder)
    cleaned = read_checkpoints(manifest, StagedObjects(settings), CLEANER_OFFSET_CHECKPOINT)
    return tuple(
        _run_partition(
            partition,
            _with_segments(
                copies,
                entries[partition],
                is_compacted=partition in cleaned or has_holes_by_design(partition.topic, settings),
            ),
            tuple(entries[partition]),
            settings,
        )
        for partition, copies in sorted(found.items())
    )


def has_holes_by_design(topic: str, settings: Settings) -> bool:
    """Whether the topic is compacted, so that missing offsets are no sign of a loss (facts §8.2)."""
    return topic in INTERNAL_TOPICS or settings.topic(topic).is_compacted


def _with_segments(
    copies: Iterable[IndexedCopy], entries: Iterable[ManifestEntry], *, is_compacted: bool
) -> tuple[IndexedCopy, ...]:
    """The copies, those of brokers' logs with their segments."""
    found: dict[tuple[str, str], list[ManifestEntry]] = {}
    for entry in entries:
        if entry.role in SEGMENT_ROLES:
            found.setdefault((entry.source, entry.copy_directory), []).append(entry)
    return tuple(
        replace(
            copy,
            segments=segment_places(found.get((copy.source, copy.directory), ()), is_compacted=is_compacted),
        )
        for copy in copies
    )


def _by_partition(entries: Iterable[ManifestEntry]) -> dict[TopicPartition, list[ManifestEntry]]:
    found: dict[TopicPartition, list[ManifestEntry]] = {}
    for entry in entries:
        if entry.partition != NO_PARTITION:
            found.setdefault(TopicPartition(entry.topic, entry.partition), []).append(entry)
    return found


def _run_partition(
    partition: TopicPartition,
    copies: tuple[IndexedCopy, ...],
    entries: tuple[ManifestEntry, ...],
    settings: Settings,
) -> RunPartition:
    by_origin: dict[AppendOrigin, list[IndexedCopy]] = {}
    for copy in copies:
        by_origin.setdefault(reader_of(settings.source(copy.source)).origin, []).append(copy)
    origin = min(by_origin, key=PRECEDENCE.index)
    return RunPartition(
        partition=partition,
        origin=origin,
        copies=tuple(by_origin.pop(origin)),
        others=tuple(chain.from_iterable(by_origin.values())),
        entries=entries,
    )
