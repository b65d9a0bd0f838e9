"""A log directory of a running broker as `onceover copy` reads it: hard links to its files, and their sizes.

A hard link keeps a segment that retention or compaction deletes meanwhile. A broker only appends to a
segment, so its first bytes, as many as it had when the link was made, are the segment of that moment. The
links are in a folder beside the log directory: a broker does not start if it finds an unknown folder inside.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.kafka.formats.checkpoints import read_properties
from spark_jobs.kafka.formats.log_files import (
    CLUSTER_METADATA_DIR,
    LEADER_EPOCH_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    FileSuffix,
    LogFileKind,
    parse_file_name,
    parse_partition_dir,
)
from spark_jobs.lake.errors import LakeBusy, StorageError
from spark_jobs.sources.broker_files import LOG_DIRECTORY_FILES

COPIED_KINDS = frozenset({LogFileKind.LOG, LogFileKind.SNAPSHOT, LogFileKind.TXN_INDEX})
PARTITION_FILES = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)
GROWING = frozenset({LogFileKind.LOG, LogFileKind.TXN_INDEX})
"""Files that a broker appends to; all others are replaced by new ones."""
ATTEMPTS = 20
NO_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.EROFS}
OnRemark = Callable[[str], None]


class CopyPart(StrEnum):
    """What is copied in one go: first the data, then the coordinators' logs."""

    DATA = "data"
    COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFile:
    """A file to copy: its name below the log directory, where it is read, and how many bytes of it.

    `is_closed`: a segment that is not the last one of its partition. `is_linked`: `path` is a hard link.
    """

    key: str
    path: Path
    size: int
    inode: int
    modified_ns: int
    is_closed: bool = False
    is_linked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCopy:
    """The files of a partition in the order in which they are copied: segments first, checkpoints last."""

    name: str
    files: tuple[BrokerFile, ...]


@dataclass
class BrokerDirectory:
    """One entry of a broker's `log.dirs`, and the folder with hard links to its files, if links are used."""

    root: Path
    links: Path | None
    remark: OnRemark
    deleted: int = 0
    """Files that the broker deleted or renamed while they were looked at."""
    _without_links: bool = field(default=False, init=False)

    @property
    def has_links(self) -> bool:
        return self.links is not None and not self._without_links

    def partitions(self, part: CopyPart) -> list[str]:
        """Names of the partition folders of that part; those that a broker deletes or moves are left out."""
        wants_coordinator = part is CopyPart.COORDINATOR
        return [
            name
            for name in sorted(_names(self.root))
            if (found := parse_partition_dir(name)) is not None
            and found.suffix is None
            and name != CLUSTER_METADATA_DIR
            and (found.topic in INTERNAL_TOPICS) is wants_coordinator
        ]

    def files(self, name: str) -> PartitionCopy | None:
        """The partition's files as of now, linked if possible; None if the broker has deleted the topic."""
        found: list[BrokerFile] = []
        for attempt in range(1, ATTEMPTS + 1):
            try:
                names = _names(self.root / name)
            except FileNotFoundError:
                self.remark(f"{name}: the broker deleted the partition during the copy")
                return None
            found, missing = self._taken(name, names)
            if not missing or attempt == ATTEMPTS:
                self.deleted += missing
                break
        return PartitionCopy(name=name, files=tuple(found))

    def checkpoints(self) -> tuple[BrokerFile, ...]:
        """The files of the log directory itself."""
        found, _ = self._taken("", sorted(LOG_DIRECTORY_FILES & set(_names(self.root))))
        return tuple(found)

    def _taken(self, folder: str, names: Iterable[str]) -> tuple[list[BrokerFile], int]:
        """The files to copy, and how many of them are no longer there."""
        wanted = in_copy_order(names) if folder else list(names)
        active = max((_offset(name) for name in wanted if name.endswith(".log")), default=-1)
        found, missing = [], 0
        for name in wanted:
            key = f"{folder}/{name}" if folder else name
            try:
                is_closed = name.endswith(".log") and _offset(name) < active
                found.append(self._take(key, is_closed=is_closed))
            except FileNotFoundError:
                missing += 1
        return found, missing

    def _take(self, key: str, *, is_closed: bool) -> BrokerFile:
        path = self._link(key) if self.has_links else None
        stat = (path or self.root / key).stat()
        return BrokerFile(
            key=key,
            path=path or self.root / key,
            size=stat.st_size,
            inode=stat.st_ino,
            modified_ns=stat.st_mtime_ns,
            is_closed=is_closed,
            is_linked=path is not None,
        )

    def _link(self, key: str) -> Path | None:
        """A new hard link; None where the system refuses one, and no more are tried then."""
        assert self.links is not None
        link = self.links / key
        try:
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.hardlink_to(self.root / key)
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
            self._without_links = True
            self.remark(f"files are copied without hard links: {self.links}: {_why_no_link(error)}")
            return None
        return link


def in_copy_order(names: Iterable[str]) -> list[str]:
    """The names of a partition's files that are copied: segments in order of offsets, then the small ones."""
    segments: list[tuple[int, str]] = []
    snapshots: list[tuple[int, str]] = []
    for name in names:
        file = parse_file_name(name)
        if file is None or file.kind not in COPIED_KINDS:
            continue
        if file.suffix is None or (file.kind is LogFileKind.LOG and file.suffix is FileSuffix.SWAP):
            (segments if file.kind in GROWING else snapshots).append((file.offset, name))
    small = [name for name in PARTITION_FILES if name in set(names)]
    return [name for _, name in sorted(segments)] + [name for _, name in sorted(snapshots)] + small


def is_copied(key: str) -> bool:
    """Whether an object at the destination is one that a copy writes."""
    *folders, name = key.split("/")
    if not folders:
        return name in LOG_DIRECTORY_FILES
    return len(folders) == 1 and parse_partition_dir(folders[0]) is not None and bool(in_copy_order([name]))


def owner_of(properties: bytes) -> dict[str, str]:
    """Which broker's directory it is, by its `meta.properties`."""
    names = ("cluster.id", "node.id", "broker.id", "directory.id")
    return {name: value for name, value in read_properties(properties).items() if name in names}


@contextmanager
def opened(root: Path, links: Path, *, is_linked: bool, remark: OnRemark) -> Iterator[BrokerDirectory]:
    """The log directory, locked against a second copy; links that a killed copy left are removed."""
    if not (root / META_PROPERTIES).is_file():
        raise StorageError(
            f"{root}: no log directory of a broker, since it has no {META_PROPERTIES}; "
            "give an entry of the broker's `log.dirs`"
        )
    if links.resolve().is_relative_to(root.resolve()):
        raise StorageError(f"{links}: inside the log directory; a broker does not start with unknown folders")
    with _locked(root):
        shutil.rmtree(links, ignore_errors=True)
        try:
            yield BrokerDirectory(root=root, links=links if is_linked else None, remark=remark)
        finally:
            shutil.rmtree(links, ignore_errors=True)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LakeBusy(f"{root}: another `onceover copy` of this log directory is running") from None
        yield
    finally:
        os.close(directory)


def _names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def _offset(name: str) -> int:
    return int(name.partition(".")[0])


def _why_no_link(error: OSError) -> str:
    if error.errno == errno.EXDEV:
        return "another file system than the log directory's; --links names a folder on the same one"
    if error.errno in {errno.EPERM, errno.EACCES}:
        return "permission denied; run as the broker's user, or name a folder with --links"
    return str(error.strerror)
