"""Tiered storage and buckets as a log directory: segments under Kafka's own names, below a scratch folder.

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
from spark_jobs.kafka.formats.tier_files import (
    INDEXES,
    LEADER_EPOCHS,
    LOG,
    MANIFEST,
    SNAPSHOT,
    TXN_INDEX,
    TierLayout,
    TierName,
    parse_tier_name,
)
from spark_jobs.lake.aiven import INDEX_PARTS, AivenObjects, index_path
from spark_jobs.lake.errors import ObjectDamaged
from spark_jobs.lake.stores import open_store
from spark_jobs.lake.tiers import TierPartition, Upload, end_by_index, tier_partitions
from spark_jobs.reading.errors import NotKafka
from spark_jobs.sources.source import Content

S3 = "s3://"
READERS = 8
"""Uploads that are read at a time."""
KINDS = {
    LOG: LogFileKind.LOG,
    TXN_INDEX: LogFileKind.TXN_INDEX,
    LogFileKind.INDEX.value: LogFileKind.INDEX,
    LogFileKind.TIME_INDEX.value: LogFileKind.TIME_INDEX,
}


def view_of(place: str, folder: Path, keys: Mapping[str, str]) -> Path:
    """The path of what the place is written as below `folder`; the place itself if it is no tier."""
    path = Path(place)
    named = parse_tier_name(path.name) if path.is_file() else None
    if named is not None:
        return _file_view(path, named, folder, keys)
    place = place.rstrip("/") if place.startswith(S3) else str(path.absolute())
    tier = _find_tier(place, S3Settings())
    if tier:
        found = _write_log_directory(tier, folder, keys)
        if not found:
            raise NotKafka(f"{place}: no whole upload in the layout {tier[0].layout}")
        return found[0] if tier[0].url == place else folder
    return _downloaded(place, folder) if place.startswith(S3) else path


def _file_view(path: Path, named: TierName, folder: Path, keys: Mapping[str, str]) -> Path:
    """One object of an upload under the name that it would have in a log directory."""
    folder.mkdir()
    stem = path.name.removesuffix(f".{named.part}")
    if path.with_name(f"{stem}.{MANIFEST}").exists():
        if named.part in (INDEXES, MANIFEST):
            raise NotKafka(f"{path}: an object of the layout {TierLayout.AIVEN}; inspect its directory")
        objects = AivenObjects(open_store(str(path.parent), S3Settings()), keys)
        view = folder / f"{named.offset:020d}.{LOG}"
        with view.open("wb") as file:
            file.writelines(objects.chunks(path.name))
        return view
    offset = named.offset
    if named.part == SNAPSHOT and path.with_suffix(f".{LOG}").exists():
        offset = end_by_index(stem, open_store(str(path.parent), S3Settings()))
    name = LEADER_EPOCH_CHECKPOINT if named.part == LEADER_EPOCHS else f"{offset:020d}.{named.part}"
    view = folder / name
    view.symlink_to(path.absolute())
    return view


def _downloaded(place: str, folder: Path) -> Path:
    """A copy of what is at an `s3://` address: a directory, or one object."""
    store = open_store(place, S3Settings())
    keys = [stat.key for stat in store.list()]
    if not keys:
        root, _, key = place.rpartition("/")
        store, keys = open_store(root, S3Settings()), [key]
        if store.stat(key) is None:
            raise NotKafka(f"{place}: there is no such object, and none below it")
        return _fetch(store.chunks(key), folder / key)
    for key in keys:
        _fetch(store.chunks(key), folder / key)
    return folder


def _fetch(pieces: Iterable[bytes], to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    with to.open("wb") as file:
        file.writelines(pieces)
    return to


# A tier as directories of partitions.


def _find_tier(place: str, s3: S3Settings) -> list[TierPartition]:
    """The partitions of the tier that the directory or `s3://` address `place` is, or is a part of."""
    store = open_store(place.rstrip("/"), s3)
    return tier_partitions(store, list(store.list()))


def _write_log_directory(
    partitions: Iterable[TierPartition], to: Path, keys: Mapping[str, str]
) -> list[Path]:
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
