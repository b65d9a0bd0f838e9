"""Tiered storage as a log directory: its segments under Kafka's own names, for tools that read directories.

Plain segments in a file system are linked, all others are written decoded. Of uploads that begin at one
offset the largest is taken; which offsets segments share is for the reader to find.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.config.settings import S3Settings
from spark_jobs.kafka.formats.checkpoints import PartitionMetadata, write_partition_metadata
from spark_jobs.kafka.formats.log_files import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    LogFileKind,
    segment_file_name,
)
from spark_jobs.kafka.formats.tier_files import LEADER_EPOCHS, LOG, SNAPSHOT, TXN_INDEX, TierLayout
from spark_jobs.lake.aiven import INDEX_PARTS, AivenObjects, index_path
from spark_jobs.lake.errors import ObjectDamaged
from spark_jobs.lake.stores import open_store
from spark_jobs.lake.tiers import TierPartition, Upload, end_by_index, tier_partitions
from spark_jobs.sources.source import Content

READERS = 8
"""Uploads that are read at a time."""
KINDS = {
    LOG: LogFileKind.LOG,
    TXN_INDEX: LogFileKind.TXN_INDEX,
    LogFileKind.INDEX.value: LogFileKind.INDEX,
    LogFileKind.TIME_INDEX.value: LogFileKind.TIME_INDEX,
}


def find_tier(place: str, s3: S3Settings) -> list[TierPartition]:
    """The partitions of the tier that the directory or `s3://` address `place` is, or is a part of."""
    store = open_store(place.rstrip("/"), s3)
    return tier_partitions(store, list(store.list()))


def write_log_directory(partitions: Iterable[TierPartition], to: Path, keys: Mapping[str, str]) -> list[Path]:
    """Writes the partitions of a tier as directories below `to`; `keys` open encrypted objects."""
    written = []
    for tier in partitions:
        if tier.uploads:
            written.append(to / f"{tier.topic}-{tier.partition}")
            _write_partition(_View(tier=tier, directory=written[-1], keys=keys), _largest(tier.uploads))
    return written


def _largest(uploads: Sequence[Upload]) -> list[Upload]:
    """One upload for each start offset."""
    found: dict[int, Upload] = {}
    for each in sorted(uploads, key=lambda each: (-each.objects[LOG].size, each.stem)):
        found.setdefault(each.file.start_offset, each)
    return [found[start] for start in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """One partition while it is written."""

    tier: TierPartition
    directory: Path
    keys: Mapping[str, str]

    @property
    def aiven(self) -> AivenObjects | None:
        return AivenObjects(self.tier.store, self.keys) if self.tier.layout is TierLayout.AIVEN else None

    def put(self, key: str, name: str) -> None:
        """The object under another name; an empty index has no file."""
        content: Content = self.aiven or self.tier.store
        path = None if self.aiven else self.tier.store.local_path(key)
        target = self.directory / name
        if path is not None:
            target.symlink_to(path)
            return
        with target.open("wb") as file:
            file.writelines(content.chunks(key))
        if not target.stat().st_size:
            target.unlink()


def _write_partition(view: _View, uploads: Sequence[Upload]) -> None:
    view.directory.mkdir(parents=True)
    with ThreadPoolExecutor(READERS) as readers:
        list(readers.map(lambda each: _write_upload(view, each, is_newest=each is uploads[-1]), uploads))
    if uploads[-1].file.topic_id:
        metadata = PartitionMetadata(topic_id=uploads[-1].file.topic_id)
        (view.directory / PARTITION_METADATA).write_bytes(write_partition_metadata(metadata))


def _write_upload(view: _View, upload: Upload, *, is_newest: bool) -> None:
    for part, key in _parts(view, upload):
        if part in KINDS:
            view.put(key, segment_file_name(upload.file.start_offset, KINDS[part]))
        elif part == SNAPSHOT:
            view.put(key, segment_file_name(_end(view, upload), LogFileKind.SNAPSHOT))
        elif part == LEADER_EPOCHS and is_newest:
            view.put(key, LEADER_EPOCH_CHECKPOINT)


def _parts(view: _View, upload: Upload) -> Iterator[tuple[str, str]]:
    """What the upload has, by part."""
    if view.aiven is None:
        yield from ((part, stat.key) for part, stat in upload.objects.items())
        return
    yield LOG, upload.objects[LOG].key
    yield from ((part, index_path(upload.stem, part)) for part in INDEX_PARTS)


def _end(view: _View, upload: Upload) -> int:
    if view.aiven is None:
        return end_by_index(upload.stem, view.tier.store)
    manifest = view.aiven.manifest(upload.stem)
    if manifest.start_offset != upload.file.start_offset:
        raise ObjectDamaged(f"{upload.stem}: its manifest begins at offset {manifest.start_offset}")
    return manifest.end_offset + 1
