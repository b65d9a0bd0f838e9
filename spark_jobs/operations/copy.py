"""Copies a log directory of a running broker to a folder or bucket: `onceover copy`.

The data is taken first, then the coordinators' logs, then the checkpoint files of the log directory. With
hard links that takes seconds, and the transfer follows. A file that the destination has already is not
transferred again. `onceover-copy.json` is removed at the beginning and written at the end: a copy that was
killed claims nothing, and the next one continues it.
"""

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.kafka.errors import CorruptCheckpoint
from spark_jobs.kafka.formats.checkpoints import read_offsets
from spark_jobs.kafka.formats.log_files import CLEANER_OFFSET_CHECKPOINT, META_PROPERTIES, PARTITION_METADATA
from spark_jobs.lake.checksums import SHA256, algorithm_of, labelled, new_hasher
from spark_jobs.lake.errors import ObjectMissing, StorageError
from spark_jobs.lake.file_store import translated
from spark_jobs.lake.object_store import ObjectStat, ObjectStore, printable
from spark_jobs.operations.copy_snapshot import (
    BrokerDirectory,
    BrokerFile,
    CopyPart,
    OnRemark,
    PartitionCopy,
    is_copied,
    opened,
    owner_of,
)
from spark_jobs.sources.broker_files import COPY_TIMES, CopiedPath, CopyTimes

RECORD = "onceover-copy-files.json"
"""What the destination holds, file by file, so that the next copy need not read it."""
RECORD_FORMAT = 1
RECORD_SECONDS = 30
"""How often the record is written during a copy."""
THREADS = 4
CHUNK_BYTES = 4 * 2**20
RECOPIES = 3
"""How often a partition is read again in which files vanish, where there are no hard links."""


class CopiedFile(NamedTuple):
    """A file as it was when it was copied, and the version of its copy."""

    size: int
    modified_ns: int
    inode: int
    sha256: str
    version: str


@dataclass(slots=True, kw_only=True)
class CopyCounts:
    """What a copy did; `vanished` are files that the broker deleted before they were copied."""

    files: int = 0
    bytes: int = 0
    unchanged_files: int = 0
    unchanged_bytes: int = 0
    removed: int = 0
    vanished: int = 0
    partitions: int = 0
    hard_links: bool = True
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest:
    """`links` is where a folder for hard links is made, on the file system of the log directory.

    None: beside the log directory. Only a folder of this name is ever removed.
    """

    log_directory: Path
    store: ObjectStore
    parts: tuple[CopyPart, ...] = tuple(CopyPart)
    links: Path | None = None
    is_linked: bool = True

    @property
    def links_folder(self) -> Path:
        return (self.links or self.log_directory.parent) / f".{self.log_directory.name}.onceover-copy"


Watch = Callable[[str, int], None]
"""Called with the file that was copied and its bytes."""


def copy_directory(request: CopyRequest, *, remark: OnRemark, watch: Watch) -> CopyCounts:
    """Copies; returns what was done. `remark` gets sentences about what a person may want to know."""
    began = time.monotonic()
    _check_apart(request)
    links = request.links_folder
    with (
        translated(str(request.log_directory)),
        opened(request.log_directory, links, is_linked=request.is_linked, remark=remark) as source,
    ):
        copy = _Copy(
            source=source, store=request.store, watch=watch, record=_read_record(request.store, remark)
        )
        times = copy.run(request.parts)
        _write_times(request.store, times)
    counts = replace(copy.counts, hard_links=source.has_links, seconds=round(time.monotonic() - began, 1))
    counts.vanished += source.deleted
    return counts


@dataclass
class _Copy:
    """One copy on its way."""

    source: BrokerDirectory
    store: ObjectStore
    watch: Watch
    record: dict[str, CopiedFile]
    counts: CopyCounts = field(default_factory=CopyCounts)
    there: dict[str, ObjectStat] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    recorded_at: float = field(default_factory=time.monotonic)

    def run(self, parts: Sequence[CopyPart]) -> CopyTimes | None:
        """Everything but the last write, which makes the copy complete."""
        before = _read_times(self.store)
        self.there = {each.key: each for each in _listed(self.store) if is_copied(each.key)}
        self._check_owner()
        self.store.delete(COPY_TIMES)
        with self._saved_record():
            times, found = self._copy_parts(parts)
        self._remove_all_but({file.key for each in found for file in each.files}, parts)
        self.store.make_durable(key for key in self.record if key in self.there)
        return _times_of(times, before, parts, has_coordinator=self._has_coordinator())

    def _copy_parts(
        self, parts: Sequence[CopyPart]
    ) -> tuple[dict[CopyPart, CopiedPath], list[PartitionCopy]]:
        """When each part was taken, and its files; with hard links all are taken before the transfer."""
        times: dict[CopyPart, CopiedPath] = {}
        linked: list[PartitionCopy] = []
        copied: list[PartitionCopy] = []
        for part in parts:
            started = _now()
            names = self.source.partitions(part)
            taken = [files for name in names if (files := self.source.files(name)) is not None]
            if self.source.has_links:
                linked += taken
            else:
                copied += self._transfer(taken)
            times[part] = CopiedPath(path="", started_at=started, finished_at=_now())
        self.counts.partitions = len(linked) + len(copied)
        linked.append(PartitionCopy(name="", files=self.source.checkpoints()))
        return times, copied + self._transfer(linked)

    # -- files

    def _transfer(self, partitions: Sequence[PartitionCopy]) -> list[PartitionCopy]:
        """Copies them, several partitions at a time; returns the files that are at the destination then."""
        compacted = self._compacted()
        with ThreadPoolExecutor(THREADS, thread_name_prefix="copy") as threads:
            return list(
                threads.map(lambda each: self._copy_partition(each, each.name in compacted), partitions)
            )

    def _copy_partition(self, partition: PartitionCopy, is_compacted: bool) -> PartitionCopy:
        self._drop_other_topic(partition)
        for attempt in range(1, RECOPIES + 1):
            copied = [file for file in partition.files if self._copy_file(file, is_compacted=is_compacted)]
            if len(copied) == len(partition.files) or attempt == RECOPIES:
                break
            again = self.source.files(partition.name) if partition.name else None
            if again is None:
                break
            partition = again
        with self.lock:
            self.counts.vanished += len(partition.files) - len(copied)
        return replace(partition, files=tuple(copied))

    def _copy_file(self, file: BrokerFile, *, is_compacted: bool) -> bool:
        """Whether the destination has the file now; False if the broker has deleted it."""
        known = self.record.get(file.key)
        is_known = known is not None and known[:3] == (file.size, file.modified_ns, file.inode)
        if self._is_there(file, known, is_trusted=is_known and not (is_compacted and file.is_closed)):
            self._count(file, is_new=False)
            return True
        try:
            copied = self._put(file)
        except FileNotFoundError:
            return False
        with self.lock:
            self.record[file.key] = copied
            self.there[file.key] = ObjectStat(key=file.key, size=copied.size, version=copied.version)
        self._count(file, is_new=True)
        return True

    def _is_there(self, file: BrokerFile, known: CopiedFile | None, *, is_trusted: bool) -> bool:
        """Whether the destination has these bytes: by the record, or for closed segments by their digest."""
        copy = self.there.get(file.key)
        if copy is None or copy.size != file.size:
            return False
        is_untouched = known is not None and known.version == copy.version
        if is_trusted and is_untouched:
            return True
        if not file.is_closed:
            return False
        expected = known.sha256 if known is not None and is_untouched else _digest_at(self.store, copy)
        try:
            found = _digest_of(file, algorithm_of(expected)) if expected else ""
        except FileNotFoundError:
            return False
        if not expected or found != expected:
            return False
        if algorithm_of(found) == SHA256:
            with self.lock:
                self.record[file.key] = _as_copied(file, found, copy.version)
        return True

    def _put(self, file: BrokerFile) -> CopiedFile:
        """Transfers the file's bytes; the copy has its name only when it is complete."""
        if file.is_linked and file.is_closed and self.store.local_path(file.key) is None:
            digest, size = _digest_of(file, SHA256), file.size
            self.store.adopt(file.path, file.key)  # uploads the link and removes it
        else:
            scratch = self.store.scratch() / secrets.token_hex(8)
            try:
                digest, size = _copy_bytes(file, scratch)
                os.utime(scratch, ns=(file.modified_ns, file.modified_ns))
                self.store.adopt(scratch, file.key)
            finally:
                scratch.unlink(missing_ok=True)
        stat = self.store.stat(file.key)
        if stat is None or stat.size != size:
            raise StorageError(f"{printable(self.store.url_of(file.key))}: not there after it was written")
        return _as_copied(replace(file, size=size), digest, stat.version)

    def _count(self, file: BrokerFile, *, is_new: bool) -> None:
        with self.lock:
            if is_new:
                self.counts.files += 1
                self.counts.bytes += file.size
            else:
                self.counts.unchanged_files += 1
                self.counts.unchanged_bytes += file.size
            self.watch(file.key, file.size)
            if time.monotonic() - self.recorded_at > RECORD_SECONDS:
                self._save_record()

    # -- what the destination must not have

    def _check_owner(self) -> None:
        if META_PROPERTIES not in self.there:
            return
        mine = owner_of((self.source.root / META_PROPERTIES).read_bytes())
        theirs = owner_of(self.store.read(META_PROPERTIES))
        if mine != theirs:
            raise StorageError(
                f"{printable(self.store.url)}: holds the copy of another one ({_shown(theirs)}) "
                f"than {printable(str(self.source.root))} ({_shown(mine)}); give each a folder of its own"
            )

    def _drop_other_topic(self, partition: PartitionCopy) -> None:
        """Removes the copy of a deleted topic whose name another topic has now."""
        key = f"{partition.name}/{PARTITION_METADATA}"
        new = next((file for file in partition.files if file.key == key), None)
        if new is None or key not in self.there:
            return
        try:
            is_same = new.path.read_bytes() == self.store.read(key)
        except FileNotFoundError:
            return
        if not is_same:
            self._remove(each for each in list(self.there) if each.startswith(f"{partition.name}/"))

    def _remove_all_but(self, kept: set[str], parts: Sequence[CopyPart]) -> None:
        """Removes what the broker has deleted, of the parts that were copied."""
        self._remove(key for key in list(self.there) if key not in kept and _part_of(key) in {*parts, None})

    def _remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.store.delete(key)
            with self.lock:
                self.counts.removed += 1
                self.there.pop(key, None)
                self.record.pop(key, None)

    def _has_coordinator(self) -> bool:
        return any(_part_of(key) is CopyPart.COORDINATOR for key in self.there)

    def _compacted(self) -> set[str]:
        """Partitions of the log cleaner, which replaces segments and keeps their modification times."""
        try:
            data = (self.source.root / CLEANER_OFFSET_CHECKPOINT).read_bytes()
            return {f"{each.topic}-{each.partition}" for each in read_offsets(data)}
        except (FileNotFoundError, CorruptCheckpoint):
            return set()

    # -- the record

    @contextmanager
    def _saved_record(self) -> Iterator[None]:
        """The record is written also if the transfer fails, for the next copy."""
        try:
            yield
        finally:
            with self.lock:
                self._save_record()

    def _save_record(self) -> None:
        files = {key: self.record[key] for key in sorted(self.record) if key in self.there}
        self.store.put(RECORD, json.dumps({"format": RECORD_FORMAT, "files": files}).encode())
        self.recorded_at = time.monotonic()


def _part_of(key: str) -> CopyPart | None:
    """The part of the copy that a file belongs to; None for those of the log directory itself."""
    folder, slash, _ = key.partition("/")
    if not slash:
        return None
    return CopyPart.COORDINATOR if folder.rpartition("-")[0] in INTERNAL_TOPICS else CopyPart.DATA


def _check_apart(request: CopyRequest) -> None:
    """The destination is neither inside the log directory nor around it, nor inside the folder for links."""
    if request.store.url.startswith("s3://"):
        return
    source, target = request.log_directory.resolve(), Path(request.store.url)
    if source.is_relative_to(target) or target.is_relative_to(source):
        raise StorageError(
            f"{printable(str(target))}: the destination and the log directory {printable(str(source))} "
            "must be apart; a broker does not start with unknown folders in its log directory"
        )
    links = request.links_folder.resolve()
    if target.is_relative_to(links):
        raise StorageError(f"{printable(str(target))}: inside the folder for hard links, which is removed")


def _listed(store: ObjectStore) -> Iterator[ObjectStat]:
    try:
        yield from store.list()
    except ObjectMissing:
        return  # the first copy


def _digest_at(store: ObjectStore, copy: ObjectStat) -> str:
    """The digest of what is at the destination: the store's own, or the file's; empty if unknown."""
    kept = store.checksum(copy.key, version=copy.version)
    path = store.local_path(copy.key)
    if kept or path is None:
        return kept
    return _digest_of(BrokerFile(key=copy.key, path=path, size=copy.size, inode=0, modified_ns=0), SHA256)


def _pieces(file: BrokerFile) -> Iterator[bytes]:
    """The first bytes of the file, as many as it had when it was taken."""
    left = file.size
    with file.path.open("rb", buffering=0) as opened_file:
        while left and (piece := opened_file.read(min(CHUNK_BYTES, left))):
            yield piece
            left -= len(piece)


def _digest_of(file: BrokerFile, algorithm: str) -> str:
    digest = new_hasher(algorithm)
    for piece in _pieces(file):
        digest.update(piece)
    return labelled(algorithm, digest.hexdigest())


def _copy_bytes(file: BrokerFile, to: Path) -> tuple[str, int]:
    """Writes the file's bytes; returns their SHA-256 and number, fewer if the broker truncated the file."""
    digest, size = new_hasher(SHA256), 0
    with to.open("xb", buffering=0) as out:
        for piece in _pieces(file):
            digest.update(piece)
            out.write(piece)
            size += len(piece)
    return digest.hexdigest(), size


def _as_copied(file: BrokerFile, sha256: str, version: str) -> CopiedFile:
    return CopiedFile(
        size=file.size, modified_ns=file.modified_ns, inode=file.inode, sha256=sha256, version=version
    )


def _read_record(store: ObjectStore, remark: OnRemark) -> dict[str, CopiedFile]:
    """The record of the last copy; without a readable one, closed segments are compared by their bytes."""
    if store.stat(RECORD) is None:
        return {}
    try:
        read = json.loads(store.read(RECORD))
        files = read["files"] if read["format"] == RECORD_FORMAT else {}
        return {key: CopiedFile(*values) for key, values in files.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        remark(f"{printable(store.url_of(RECORD))}: ignored, not readable: {error}")
        return {}


def _read_times(store: ObjectStore) -> CopyTimes | None:
    try:
        return CopyTimes.model_validate_json(store.read(COPY_TIMES))
    except (ObjectMissing, ValueError):
        return None


def _times_of(
    found: dict[CopyPart, CopiedPath],
    before: CopyTimes | None,
    parts: Sequence[CopyPart],
    *,
    has_coordinator: bool,
) -> CopyTimes | None:
    """The times of all parts, of those not copied now as the last copy left them; None if one is unknown."""
    last = {each.path: each for each in before.copied} if before else {}
    data = found.get(CopyPart.DATA) or last.get("")
    if data is None:
        return None
    copied = [replace_path(data, "")]
    for topic in INTERNAL_TOPICS:
        coordinator = found.get(CopyPart.COORDINATOR) or last.get(f"{topic}-")
        if coordinator is not None:
            copied.append(replace_path(coordinator, f"{topic}-"))
        elif has_coordinator and CopyPart.COORDINATOR not in parts:
            return None
    return CopyTimes(format=1, copied=tuple(copied))


def replace_path(times: CopiedPath, path: str) -> CopiedPath:
    """The same times for another path."""
    return times.model_copy(update={"path": path})


def _write_times(store: ObjectStore, times: CopyTimes | None) -> None:
    if times is not None:
        store.put(COPY_TIMES, times.model_dump_json(indent=1).encode())


def _now() -> datetime:
    return datetime.now(tz=UTC)


def _shown(owner: dict[str, str]) -> str:
    return ", ".join(f"{name} {printable(value)}" for name, value in owner.items())


def as_plain(counts: CopyCounts) -> dict[str, object]:
    """The counts as JSON."""
    return asdict(counts)
