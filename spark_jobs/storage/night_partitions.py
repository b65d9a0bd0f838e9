"""The partitions that a night brings something to: where from, and which copies have a say."""

from collections.abc import Iterable
from dataclasses import dataclass

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import SourceKind
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.index_files import IndexedCopy, read_index_files
from spark_jobs.storage.manifest import NO_PARTITION, Manifest, ManifestEntry
from spark_jobs.storage.run_folder import RunFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPartition:
    """One partition; where it is captured, brokers' logs of it are `others`: they have no say tonight.

    `entries` are all its staged objects, in arrival order.
    """

    partition: TopicPartition
    kind: SourceKind
    copies: tuple[IndexedCopy, ...]
    others: tuple[IndexedCopy, ...]
    entries: tuple[ManifestEntry, ...]

    @property
    def rows(self) -> int:
        return sum(copy.rows for copy in (*self.copies, *self.others))


def night_partitions(folder: RunFolder, manifest: Manifest, settings: Settings) -> tuple[NightPartition, ...]:
    """Every partition with index files, by topic and number."""
    entries = _by_partition(manifest.entries)
    found = read_index_files(folder)
    return tuple(
        _night_partition(partition, copies, tuple(entries[partition]), settings)
        for partition, copies in sorted(found.items())
    )


def _by_partition(entries: Iterable[ManifestEntry]) -> dict[TopicPartition, list[ManifestEntry]]:
    found: dict[TopicPartition, list[ManifestEntry]] = {}
    for entry in entries:
        if entry.partition != NO_PARTITION:
            found.setdefault(TopicPartition(entry.topic, entry.partition), []).append(entry)
    return found


def _night_partition(
    partition: TopicPartition,
    copies: tuple[IndexedCopy, ...],
    entries: tuple[ManifestEntry, ...],
    settings: Settings,
) -> NightPartition:
    captured = tuple(copy for copy in copies if settings.source(copy.source).kind is SourceKind.CAPTURE)
    return NightPartition(
        partition=partition,
        kind=SourceKind.CAPTURE if captured else SourceKind.BROKER_LOG,
        copies=captured or copies,
        others=tuple(copy for copy in copies if captured and copy not in captured),
        entries=entries,
    )
