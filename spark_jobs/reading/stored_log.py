"""Where a log is stored: a segment, a partition's directory or a log directory, in files or in a bucket."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.checkpoints import read_offsets
from spark_jobs.kafka.formats.log_files import (
    LOG_START_OFFSET_CHECKPOINT,
    OWN_TOPICS,
    LogFileKind,
    parse_file_name,
    parse_partition_dir,
)
from spark_jobs.lake.errors import ObjectChanged
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.object_store import ObjectStat, ObjectStore, printable
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
class StoredFile:
    """One file as it was listed; small enough to travel to a task.

    A file of a bucket keeps its `version`. In a file system it is empty, since a live broker appends to the
    last segment; what was listed is read.
    """

    root: str
    key: str
    size: int
    version: str

    @property
    def url(self) -> str:
        return f"{self.root.rstrip('/')}/{self.key}"

    @contextmanager
    def viewed(self, start: int, end: int) -> Iterator[bytes | memoryview]:
        """The bytes from `start` to `end` for the time of the context; all of them, or an error."""
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

    @property
    def log_bytes(self) -> int:
        """The size of all segments."""
        return sum(file.size for name, file in self.files.items() if is_log(name))


def is_log(name: str) -> bool:
    """Whether a file of this name holds batches."""
    named = parse_file_name(name)
    return named is not None and named.kind is LogFileKind.LOG


def find_partitions(path: str | os.PathLike[str]) -> tuple[PartitionFiles, ...]:
    """The partitions at a path or URL, by topic and number; a segment alone is a partition with one file."""
    text = os.fspath(path)
    if text.startswith(BUCKET):
        found = _in_bucket(text.rstrip("/"))
    elif "://" in text and not text.startswith(_FILE):
        raise NotKafka(f"{printable(text)}: expected a path or {BUCKET}bucket/prefix")
    else:
        found = _in_files(Path(text.removeprefix(_FILE)).resolve())
    return tuple(sorted(found, key=lambda each: (each.topic or "", each.partition or 0)))


def _in_files(place: Path) -> list[PartitionFiles]:
    if not place.exists():
        raise NotKafka(f"{printable(str(place))}: there is no such file or directory")
    store, above = open_root(str(place.parent)), f"{place.name}/" if place.name else ""
    if not place.is_dir():
        return [_segment(store, place.name, place.parent.name)]
    keys = (f"{above}{key}" for key in _local_keys(place))
    return _directory(store, above, filter(None, (store.stat(key) for key in keys)))


def _local_keys(place: Path) -> Iterator[str]:
    """Files of the directory, and of those directories in it that are partitions."""
    for entry in place.iterdir():
        if entry.is_dir() and parse_partition_dir(entry.name) is not None:
            yield from (f"{entry.name}/{file.name}" for file in entry.iterdir() if not file.is_dir())
        elif not entry.is_dir():
            yield entry.name


def _in_bucket(url: str) -> list[PartitionFiles]:
    parent, _, name = url.rpartition("/")
    if parent in {"s3:/", "s3:"}:  # the whole bucket
        return _directory(open_root(url), "", open_root(url).list())
    store = open_root(parent)
    if parse_file_name(name) is not None:
        return [_segment(store, name, parent.rpartition("/")[2])]
    return _directory(store, f"{name}/", store.list(f"{name}/"))


def _segment(store: ObjectStore, key: str, directory: str) -> PartitionFiles:
    stat, named = store.stat(key), parse_partition_dir(directory)
    url = store.url_of(key)
    if stat is None:
        raise NotKafka(f"{printable(url)}: there is no such object")
    file, parsed = parse_file_name(key), _stored(store, stat)
    if file is not None and file.kind is not LogFileKind.LOG:
        raise NotKafka(f"{printable(url)}: not a segment; expected a .log file or a directory of them")
    name = key if file is not None else f"{0:020}.{LogFileKind.LOG}"
    return PartitionFiles(
        url=url,
        topic=named.topic if named else None,
        partition=named.partition if named else None,
        files={name: parsed},
        is_segment=True,
    )


def _stored(store: ObjectStore, stat: ObjectStat) -> StoredFile:
    if stat.problem:
        raise NotKafka(f"{printable(store.url_of(stat.key))}: {stat.problem}")
    version = stat.version if store.url.startswith(BUCKET) else ""
    return StoredFile(root=store.url, key=stat.key, size=stat.size, version=version)


def _directory(store: ObjectStore, above: str, stats: Iterable[ObjectStat]) -> list[PartitionFiles]:
    """The partitions of the directory `above`, which may be one itself."""
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
            f"{printable(url)}: neither a partition's directory (no segment files) nor a log directory "
            "(no partitions)"
            if not found
            else f"{printable(url)}: a log directory without a single batch: all of its segments are empty"
        )
    return found


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
