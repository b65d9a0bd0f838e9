"""Where a log is stored: a segment, a partition's directory, a log directory or tiered storage.

In files or in a bucket. Uploads to tiered storage are read where they are, those of Aiven's plugin decoded.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.aiven_manifest import SegmentManifest
from spark_jobs.kafka.formats.checkpoints import read_offsets
from spark_jobs.kafka.formats.log_files import (
    LOG_START_OFFSET_CHECKPOINT,
    OWN_TOPICS,
    LogFileKind,
    parse_file_name,
    parse_partition_dir,
    segment_file_name,
)
from spark_jobs.kafka.formats.tier_files import (
    KEY_REFERENCE,
    KEY_REFERENCE_FORM,
    LOG,
    TierLayout,
    foreign_layout,
    parse_tier_name,
)
from spark_jobs.lake.aiven import AivenObjects, stem_of
from spark_jobs.lake.errors import ObjectChanged, ObjectDamaged
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.object_store import ObjectStat, ObjectStore, printable
from spark_jobs.lake.tiers import (
    LAYOUTS,
    TierPartition,
    Upload,
    layout_of,
    tier_partitions,
    without_key_prefix,
)
from spark_jobs.reading.errors import NotKafka, UnknownOption

BUCKET = "s3://"
_FILE = "file://"


@cache
def _open(root: str, endpoint_url: str, region: str, max_attempts: int) -> ObjectStore:
    if not root.startswith(BUCKET):
        return FileStore(root)
    from spark_jobs.config.settings import S3Settings  # noqa: PLC0415 — slow to import
    from spark_jobs.lake.s3_store import S3Store  # noqa: PLC0415

    # Every S3-compatible server of one's own understands addresses with the bucket in the path.
    own = {"endpoint_url": endpoint_url, "addressing": "path"} if endpoint_url else {}
    settings = S3Settings.model_validate({**own, "region": region, "max_attempts": max_attempts})
    return S3Store(root, settings)


def open_root(root: str) -> ObjectStore:
    """The store at `root`; a bucket's endpoint, region and credentials come from the AWS environment."""
    env = os.environ
    return _open(
        root,
        env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or "",
        env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1",
        int(env.get("AWS_MAX_ATTEMPTS") or 5),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Coding:
    """How a segment of Aiven's plugin is decoded; the manifest is read when the segment is opened.

    `keys` are the ids of private keys and where each is: `file:PATH` or `env:VARIABLE`.
    """

    topic: str
    partition: int
    start_offset: int
    keys: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    manifest: SegmentManifest | None = field(default=None, repr=False)

    def read_manifest(self, file: "StoredFile") -> SegmentManifest:
        """The manifest beside the file, which has to be of this segment."""
        found = self.objects(file).manifest(stem_of(file.key))
        expected = (self.topic, self.partition, self.start_offset)
        if (found.topic, found.partition, found.start_offset) != expected:
            raise ObjectDamaged(
                f"{printable(file.url)}: its manifest is of another segment: "
                f"{printable(f'{found.topic}-{found.partition}')} from offset {found.start_offset}"
            )
        return found

    def objects(self, file: "StoredFile") -> AivenObjects:
        """The store of the file, decoded."""
        return AivenObjects(open_root(file.root), dict(self.keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One file as it was listed; small enough to travel to a task.

    A file of a bucket keeps its `version`. In a file system it is empty, since a live broker appends to the
    last segment; what was listed is read.
    """

    root: str
    key: str
    size: int
    version: str
    coding: Coding | None = None

    @property
    def url(self) -> str:
        return f"{self.root.rstrip('/')}/{self.key}"

    def opened(self) -> "StoredFile":
        """The file with the size of its bytes as they are read, which for an encoded one its manifest has."""
        if self.coding is None or self.coding.manifest is not None:
            return self
        manifest = self.coding.read_manifest(self)
        return replace(self, size=manifest.original_size, coding=replace(self.coding, manifest=manifest))

    @contextmanager
    def viewed(self, start: int, end: int) -> Iterator[bytes | memoryview]:
        """The bytes from `start` to `end` for the time of the context; all of them, or an error."""
        if self.coding is not None:
            manifest = self.coding.manifest or self.coding.read_manifest(self)
            objects = self.coding.objects(self)
            yield objects.segment_range(self.key, manifest, start, end - start, version=self.version)
            return
        store = open_root(self.root)
        with store.viewed(self.key, start, end - start, version=self.version) as data:
            if len(data) != end - start:
                raise ObjectChanged(
                    f"{printable(self.url)}: changed while it was read: expected {self.size} bytes, found "
                    f"{start + len(data)}"
                )
            yield data


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """The files of one partition by name; `topic` and `partition` are None if its directory does not say."""

    url: str
    topic: str | None
    partition: int | None
    files: Mapping[str, StoredFile]
    log_start_offset: int = 0
    """As checkpointed beside the partition's directory."""
    is_segment: bool = False
    """One segment alone: markers may be in others."""
    is_tier: bool = False
    """Uploads to tiered storage, which may overlap, and which end before the log does."""
    incomplete: tuple[str, ...] = ()
    """Names of segments whose uploads are not whole, and are not read."""

    @property
    def log_bytes(self) -> int:
        """The size of all segments."""
        return sum(file.size for name, file in self.files.items() if is_log(name))


def is_log(name: str) -> bool:
    """Whether a file of this name holds batches."""
    named = parse_file_name(name)
    if named is None:
        uploaded = parse_tier_name(name)
        return uploaded is not None and uploaded.part == LOG
    return named.kind is LogFileKind.LOG


Keys = Mapping[str, str]


def find_partitions(
    path: str | os.PathLike[str], encryption_keys: Keys | None = None
) -> tuple[PartitionFiles, ...]:
    """The partitions at a path or URL, by topic and number; a segment alone is a partition with one file.

    `encryption_keys` open encrypted uploads to tiered storage: references to private keys by their ids.
    """
    text, keys = os.fspath(path), _checked_keys(encryption_keys or {})
    if text.startswith(BUCKET):
        found = _in_bucket(text.rstrip("/"), keys)
    elif "://" in text and not text.startswith(_FILE):
        raise NotKafka(f"{printable(text)}: expected a path or {BUCKET}bucket/prefix")
    else:
        found = _in_files(Path(text.removeprefix(_FILE)).resolve(), keys)
    return tuple(sorted(found, key=lambda each: (each.topic or "", each.partition or 0)))


def _checked_keys(keys: Keys) -> Keys:
    for key_id, reference in keys.items():
        if KEY_REFERENCE.fullmatch(reference) is None:
            raise UnknownOption(f"encryption key {printable(key_id)}: expected {KEY_REFERENCE_FORM}")
    return keys


def _in_files(place: Path, keys: Keys) -> list[PartitionFiles]:
    if not place.exists():
        raise NotKafka(f"{printable(str(place))}: there is no such file or directory")
    store, above = open_root(str(place.parent)), f"{place.name}/" if place.name else ""
    if not place.is_dir():
        return [_segment(store, place.name, place.parent.name, keys)]
    found = [stat for key in _local_keys(place) if (stat := store.stat(f"{above}{key}")) is not None]
    if not any(parse_file_name(stat.key.rpartition("/")[2]) for stat in found):
        found = list(store.list(above))  # a tier may have more directories in between
    return _directory(store, above, found, keys)


def _local_keys(place: Path) -> Iterator[str]:
    """Files of the directory, and of those directories in it that are partitions."""
    for entry in place.iterdir():
        if entry.is_dir() and parse_partition_dir(entry.name) is not None:
            yield from (f"{entry.name}/{file.name}" for file in entry.iterdir() if not file.is_dir())
        elif not entry.is_dir():
            yield entry.name


def _in_bucket(url: str, keys: Keys) -> list[PartitionFiles]:
    parent, _, name = url.rpartition("/")
    if parent in {"s3:/", "s3:"}:  # the whole bucket
        return _directory(open_root(url), "", list(open_root(url).list()), keys)
    store = open_root(parent)
    if parse_file_name(name) is not None or parse_tier_name(name) is not None:
        return [_segment(store, name, parent.rpartition("/")[2], keys)]
    return _directory(store, f"{name}/", list(store.list(f"{name}/")), keys)


def _segment(store: ObjectStore, key: str, directory: str, keys: Keys) -> PartitionFiles:
    stat, named = store.stat(key), parse_partition_dir(directory)
    url = store.url_of(key)
    if stat is None:
        raise NotKafka(f"{printable(url)}: there is no such object")
    if not is_log(key) and (parse_file_name(key) is not None or parse_tier_name(key) is not None):
        raise NotKafka(f"{printable(url)}: not a segment; expected a .log file or a directory of them")
    layout = layout_of(url)
    if layout is not None:
        file = LAYOUTS[layout].parse(url.split("/"))
        assert file is not None
        named_upload = Upload(stem=stem_of(key), file=file, objects={LOG: stat})
        (upload,) = without_key_prefix(store, layout, [named_upload])
        stored = _uploaded(store, layout, upload, keys)
        return replace(_of_tier(url, upload, {key: stored}), is_segment=True)
    name = key if is_log(key) else segment_file_name(0, LogFileKind.LOG)
    return PartitionFiles(
        url=url,
        topic=named.topic if named else None,
        partition=named.partition if named else None,
        files={name: _stored(store, stat)},
        is_segment=True,
    )


def _of_tier(url: str, upload: Upload, files: Mapping[str, "StoredFile"]) -> PartitionFiles:
    return PartitionFiles(
        url=url, topic=upload.file.topic, partition=upload.file.partition, files=files, is_tier=True
    )


def _tier_partition(tier: TierPartition, keys: Keys) -> PartitionFiles:
    files = {
        upload.objects[LOG].key.rpartition("/")[2]: _uploaded(tier.store, tier.layout, upload, keys)
        for upload in tier.uploads
    }
    found = _of_tier(tier.url, (*tier.uploads, *tier.incomplete)[0], files)
    return replace(found, incomplete=tuple(each.stem.rpartition("/")[2] for each in tier.incomplete))


def _uploaded(store: ObjectStore, layout: TierLayout, upload: Upload, keys: Keys) -> "StoredFile":
    stored = _stored(store, upload.objects[LOG])
    if layout is not TierLayout.AIVEN:
        return stored
    file = upload.file
    coding = Coding(
        topic=file.topic,
        partition=file.partition,
        start_offset=file.start_offset,
        keys=tuple(sorted(keys.items())),
    )
    return replace(stored, coding=coding)


def _stored(store: ObjectStore, stat: ObjectStat) -> StoredFile:
    if stat.problem:
        raise NotKafka(f"{printable(store.url_of(stat.key))}: {stat.problem}")
    version = stat.version if store.url.startswith(BUCKET) else ""
    return StoredFile(root=store.url, key=stat.key, size=stat.size, version=version)


def _directory(
    store: ObjectStore, above: str, stats: Sequence[ObjectStat], keys: Keys
) -> list[PartitionFiles]:
    """The partitions of the directory `above`, which may be one itself, or tiered storage."""
    uploaded = [_tier_partition(tier, keys) for tier in tier_partitions(store, stats)]
    if uploaded:
        return _with_uploads(uploaded, f"{store.url}/{above}".rstrip("/"))
    directories: dict[str, dict[str, ObjectStat]] = {"": {}}
    for stat in stats:
        directory, _, name = stat.key.removeprefix(above).rpartition("/")
        directories.setdefault(directory, {})[name] = stat
    own = directories[""]
    if any(parse_file_name(name) for name in own):
        name = above.rstrip("/") or store.url.rpartition("/")[2]
        checkpoint = LOG_START_OFFSET_CHECKPOINT if above else ""
        return [_partition(store, above, name, own, _log_starts(store, checkpoint))]
    starts = _log_starts(store, own[LOG_START_OFFSET_CHECKPOINT].key) if _has_starts(own) else {}
    found = [
        _partition(store, f"{above}{name}/", name, files, starts)
        for name, files in directories.items()
        if _is_partition(name)
    ]
    if not any(partition.log_bytes for partition in found):
        url = f"{store.url}/{above}".rstrip("/")
        raise NotKafka(
            f"{printable(url)}: {_why_none(stats)}"
            if not found
            else f"{printable(url)}: a log directory without a single batch: all of its segments are empty"
        )
    return found


def _with_uploads(found: list[PartitionFiles], url: str) -> list[PartitionFiles]:
    """Those with a whole upload; refuses a tier without any."""
    whole = [each for each in found if each.files]
    if not whole:
        raise NotKafka(
            f"{printable(url)}: tiered storage without a whole upload: all of them are under way, or were "
            "given up"
        )
    return whole


def _why_none(stats: Sequence[ObjectStat]) -> str:
    paths = [stat.key for stat in stats]
    if foreign := foreign_layout(paths):
        return f"{foreign}; this layout is not supported"
    return (
        "neither a partition's directory (no segment files) nor a log directory (no partitions) nor tiered "
        "storage in a known layout"
    )


def _has_starts(files: Mapping[str, ObjectStat]) -> bool:
    return LOG_START_OFFSET_CHECKPOINT in files


def _is_partition(name: str) -> bool:
    """Whether a directory is a partition that a broker serves."""
    named = parse_partition_dir(name)
    return named is not None and named.suffix is None and "/" not in name


def _partition(
    store: ObjectStore,
    above: str,
    name: str,
    stats: Mapping[str, ObjectStat],
    starts: Mapping[tuple[str, int], int],
) -> PartitionFiles:
    named = parse_partition_dir(name)
    return PartitionFiles(
        url=f"{store.url}/{above}".rstrip("/"),
        topic=named.topic if named else None,
        partition=named.partition if named else None,
        files={name: _stored(store, stat) for name, stat in stats.items() if parse_file_name(name)},
        log_start_offset=starts.get((named.topic, named.partition), 0) if named else 0,
    )


def _log_starts(store: ObjectStore, key: str) -> dict[tuple[str, int], int]:
    """The checkpointed log start offsets; none where the file is missing or damaged, as for a broker."""
    if not key or store.stat(key) is None:
        return {}
    try:
        entries = read_offsets(store.read(key), source=store.url_of(key))
    except CorruptData:
        return {}
    return {(entry.topic, entry.partition): entry.offset for entry in entries}


def choose(
    found: tuple[PartitionFiles, ...], topics: Iterable[str] | None, partitions: Iterable[int] | None
) -> tuple[PartitionFiles, ...]:
    """Those of the wanted topics and partition numbers; of several, Kafka's own topics only by name."""
    numbers = None if partitions is None else frozenset(partitions)
    names = None if topics is None else frozenset(topics)
    missing = (names or frozenset()) - {each.topic for each in found}
    if missing:
        known = ", ".join(sorted({each.topic for each in found if each.topic})) or "none"
        raise UnknownOption(f"no topic {', '.join(sorted(missing))} here; there are: {known}")
    chosen = tuple(
        each
        for each in found
        if (each.topic in names if names is not None else len(found) == 1 or each.topic not in OWN_TOPICS)
        and (numbers is None or each.partition in numbers)
    )
    if not chosen and numbers is None:
        own = ", ".join(sorted({str(each.topic) for each in found}))
        raise UnknownOption(f"only topics of Kafka's own here, which are read by name: {own}")
    if not chosen:
        raise UnknownOption(f"no partition {sorted(numbers or ())} of the chosen topics here")
    return chosen
