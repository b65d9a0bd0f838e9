"""What a Spark task of `stage` does: it reads each object at most once, checks that it is the one listed,
and keeps a copy.

A copy is named by its SHA-256, which is computed while it is copied. Objects of an immutable source are not
copied. They are not read either if their store keeps a checksum of them; of a large captured file the headers
of its batches are read, which have their checksums. The journal `Notes` lists what was read, so that an
interrupted run does not read it again. Headers of batches are written down while a large object is read, so
that `index` does not have to (`lake.staged_headers`).
"""

import json
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from spark_jobs.config.canonical import canonical_json, digest_of
from spark_jobs.config.settings import Settings
from spark_jobs.lake.checksums import SHA256, algorithm_of, labelled, new_hasher
from spark_jobs.lake.errors import (
    ObjectChanged,
    ObjectDamaged,
    ObjectMissing,
    StorageError,
    StoreDenied,
    UnsafeKey,
    understood,
)
from spark_jobs.lake.file_store import LARGE_BYTES, FileStore, translated
from spark_jobs.lake.layout import object_key, staging_key
from spark_jobs.lake.manifest import BATCH_ROLES, ObjectRole, SetAside, StageProblem, counts_keys
from spark_jobs.lake.object_store import ObjectStat, ObjectStore, printable
from spark_jobs.lake.staged_headers import HeaderFile, headers_folder
from spark_jobs.progress import Advance
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.source import Content, Placed

NOTES = "read"
BUNDLE_OBJECTS = 256
BUNDLE_BYTES = 64 * 2**20


class Notes:
    """Digests of versions that were read, by identity; threads may share it."""

    def __init__(self, lake: ObjectStore, day: date) -> None:
        self._lake, self._day = lake, day
        self._lock = threading.Lock()
        self._bundle: dict[str, str] = {}
        self._bytes = 0

    def read(self) -> dict[str, str]:
        """Everything noted by earlier attempts."""
        found: dict[str, str] = {}
        for bundle in self._lake.list(staging_key(self._day, NOTES)):
            with understood(self._lake.url_of(bundle.key), "remove it: its objects are read again"):
                found.update(json.loads(self._lake.read(bundle.key)))
        return found

    def add(self, identity: str, sha256: str, size: int) -> None:
        """Notes one object of `size` bytes."""
        with self._lock:
            self._bundle[identity] = sha256
            self._bytes += size
            is_due = len(self._bundle) >= BUNDLE_OBJECTS or self._bytes >= BUNDLE_BYTES
        if is_due:
            self.write()

    def write(self) -> None:
        """Writes down what has been noted since the last bundle."""
        with self._lock:
            bundle, self._bundle, self._bytes = self._bundle, {}, 0
        if bundle:
            self._lake.put(
                staging_key(self._day, f"{NOTES}/{secrets.token_hex(8)}.json"), canonical_json(bundle)
            )

    def clear(self) -> None:
        """Removes all bundles, once the run's manifest is fixed."""
        for bundle in tuple(self._lake.list(staging_key(self._day, NOTES))):
            self._lake.delete(bundle.key)


REASONS: dict[type[StorageError], SetAside] = {
    ObjectMissing: SetAside.VANISHED,
    ObjectChanged: SetAside.CHANGED,
    StoreDenied: SetAside.UNREADABLE,
    UnsafeKey: SetAside.UNSAFE_NAME,
    ObjectDamaged: SetAside.DAMAGED,
}
"""Faults of one object at its source; any other error is a store's and stops the run."""
OBJECT_COST = 256 * 2**10
"""What a request for an object costs, in bytes that could be read meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectToFetch:
    """An object to fetch, and what is known of it.

    `digest` and `prefix` are known if an earlier run or attempt has read this version. `prefix_size` leading
    bytes are compared with an earlier version, in its `prefix_algorithm`. `algorithms` are those in which
    earlier runs know the object. `is_read_only` asks for the digest alone, without a copy.
    """

    placed: Placed
    digest: str = ""
    prefix: str = ""
    prefix_size: int = 0
    prefix_algorithm: str = SHA256
    algorithms: frozenset[str] = frozenset()
    is_read_only: bool = False

    @property
    def is_known(self) -> bool:
        """Whether there is nothing to learn about it."""
        return bool(self.digest) and (bool(self.prefix) or not self.prefix_size)

    @property
    def cost(self) -> int:
        return OBJECT_COST + (0 if self.is_known else self.placed.stat.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a task learned of an object; the fields are those of `Fetched`."""

    digest: str
    other: str = ""
    prefix: str = ""
    is_here: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchTask:
    """Some objects for one worker; `keeps_headers` if it shall scan large ones for `index`."""

    wanted: tuple[ObjectToFetch, ...]
    lake: ObjectStore
    settings: Settings
    day: date
    keeps_headers: bool


def fetch_objects(task: FetchTask) -> tuple[Found | StageProblem, ...]:
    """Copies the objects of a task into the lake, and returns their digests."""
    return tuple(fetch(task, lambda _: None))


def fetch(task: FetchTask, advance: Advance) -> list[Found | StageProblem]:
    """Several objects at a time, since stores respond slowly; notes are written even if one fails."""
    fetcher = Fetcher(
        lake=task.lake,
        notes=Notes(task.lake, task.day),
        settings=task.settings,
        headers=headers_folder(task.day) if task.keeps_headers else "",
    )
    with ThreadPoolExecutor(task.settings.limits.stage_threads) as threads:
        running = {
            threads.submit(
                fetcher.fetch, each, reader_of(each.placed.source).content(task.settings)
            ): each.cost
            for each in task.wanted
        }
        try:
            for future in as_completed(running):
                future.result()
                advance(running[future])
        finally:
            threads.shutdown(cancel_futures=True)
            fetcher.notes.write()
    return [future.result() for future in running]


SMALLEST_FILE, SMALLEST_S3_OBJECT = 2**20, 8 * 2**20
"""Objects whose headers are kept: writing, reading and removing them costs less than reading the object."""


class SourceFault(StorageError):
    """One object that cannot be taken as it was listed."""

    def __init__(self, reason: SetAside, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """Fetches objects of one run into `lake`; threads may share it.

    `notes` takes what was read, the folder `headers`, if there is one, the headers of batches.
    """

    lake: ObjectStore
    notes: Notes
    settings: Settings
    headers: str

    def fetch(self, wanted: ObjectToFetch, origin: Content) -> Found | StageProblem:
        """The object's digest, once it is in its place; or why it was set aside."""
        placed, is_referenced = wanted.placed, wanted.placed.source.immutable
        if wanted.is_known:
            is_here = is_referenced or self._is_here(wanted.digest, placed.stat.size)
            if is_here or wanted.is_read_only:
                return Found(digest=wanted.digest, prefix=wanted.prefix, is_here=is_here)
        try:
            found = self._read(wanted, origin)
        except SourceFault as fault:
            detail = f"{placed.source.name}: {printable(placed.path)}: set aside: {fault}"
            return StageProblem(
                source=placed.source.name, path=placed.path, reason=fault.reason, detail=detail
            )
        if found.prefix:
            self.notes.add(identity_of(placed, wanted.prefix_size), found.prefix, 0)
        if not found.other:  # the next attempt would have to know both
            self.notes.add(identity_of(placed), found.digest, placed.stat.size)
        return found

    def _read(self, wanted: ObjectToFetch, origin: Content) -> Found:
        placed = wanted.placed
        if not (placed.source.immutable or wanted.is_read_only):
            return self._copy(wanted, origin)
        kept = _kept_checksum(placed, origin) if placed.source.immutable else ""
        if not kept or (wanted.algorithms and algorithm_of(kept) not in wanted.algorithms):
            found = self._digest_all(wanted, _pieces(origin, placed.stat))
            return Found(
                digest=found.digest, other=found.other, prefix=found.prefix, is_here=placed.source.immutable
            )
        if not wanted.prefix_size:
            return Found(digest=kept)
        head = _digest(wanted, _first_bytes(_pieces(origin, placed.stat), wanted.prefix_size))
        return Found(digest=kept, prefix=head.prefix)

    def _copy(self, wanted: ObjectToFetch, origin: Content) -> Found:
        pieces = _pieces(origin, wanted.placed.stat)
        with self._scratch_file() as path:
            with translated(str(path)), path.open("wb") as file:
                found = self._digest_all(wanted, _tee(pieces, file.write))
            if not self._is_here(found.digest, wanted.placed.stat.size):
                self.lake.adopt(path, object_key(found.digest))
        return found

    def _digest_all(self, wanted: ObjectToFetch, pieces: Iterator[bytes]) -> Found:
        """The digests of a whole object; the headers of its batches are kept if `index` can use them."""
        if not self._keeps_headers(wanted):
            return _digest(wanted, pieces)
        with HeaderFile(self.lake) as file:
            found = _digest(wanted, _tee(pieces, file.add))
            size = wanted.placed.stat.size
            # An older copy in the lake stays, and its bytes were not read now: `index` has to.
            if wanted.placed.source.immutable or not self._is_here(found.digest, size):
                file.finish(self.headers, sha256=found.digest, size=size)
        return found

    def _keeps_headers(self, wanted: ObjectToFetch) -> bool:
        """Not if the object may be inherited, or if `index` has to read its records to count keys."""
        placed = wanted.placed
        if not self.headers or placed.role not in BATCH_ROLES or wanted.is_read_only:
            return False
        is_file = self.lake.local_path(self.headers) is not None
        if counts_keys(self.settings, placed.topic, placed.role):
            return False
        return placed.stat.size >= (SMALLEST_FILE if is_file else SMALLEST_S3_OBJECT)

    def _is_here(self, sha256: str, size: int) -> bool:
        """Whether the lake holds these bytes; they come in whole or not at all, so the size is proof."""
        if algorithm_of(sha256) != SHA256:
            return False
        found = self.lake.stat(object_key(sha256))
        return found is not None and found.size == size

    @contextmanager
    def _scratch_file(self) -> Iterator[Path]:
        path = self.lake.scratch() / secrets.token_hex(8)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def identity_of(placed: Placed, prefix_size: int = 0) -> str:
    """Names one version of one object, or so many leading bytes of it."""
    named = [placed.source.name, placed.path, placed.stat.version]
    return digest_of([*named, prefix_size] if prefix_size else named)


@contextmanager
def _own_faults() -> Iterator[None]:
    try:
        yield
    except tuple(REASONS) as error:
        raise SourceFault(REASONS[type(error)], str(error)) from error


def _kept_checksum(placed: Placed, origin: Content) -> str:
    """The store's checksum; of a large captured file, which has none, that of its batches' headers."""
    with _own_faults():
        if placed.role is ObjectRole.CAPTURE and isinstance(origin, FileStore):
            if placed.stat.size < LARGE_BYTES:
                return ""  # without opening it: it is read anyway
            return origin.headers_checksum(placed.path, version=placed.stat.version)
        return origin.checksum(placed.path, version=placed.stat.version)


def _pieces(origin: Content, stat: ObjectStat) -> Iterator[bytes]:
    """The object's bytes; at the end it has proved to be the one that was listed."""
    count = 0
    with _own_faults():
        for piece in origin.chunks(stat.key, version=stat.version):
            count += len(piece)
            yield piece
    if count != stat.size:
        raise SourceFault(SetAside.CHANGED, f"listed with {stat.size} bytes, but {count} could be read")


def _first_bytes(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """`pieces` up to the one that has the last of the first `size` bytes."""
    for piece in pieces:
        yield piece
        size -= len(piece)
        if size <= 0:
            return


def _tee(pieces: Iterator[bytes], write: Callable[[bytes], object]) -> Iterator[bytes]:
    for piece in pieces:
        write(piece)
        yield piece


def _digest(wanted: ObjectToFetch, pieces: Iterator[bytes]) -> Found:
    """SHA-256 of all bytes, a second digest if earlier runs know the object by another, and the prefix's."""
    other = "" if SHA256 in wanted.algorithms else min(wanted.algorithms, default="")
    named = {SHA256, wanted.prefix_algorithm if wanted.prefix_size else SHA256, other or SHA256}
    hashers = {algorithm: new_hasher(algorithm) for algorithm in named}
    left, prefix = wanted.prefix_size, ""
    for piece in pieces:
        if 0 < left <= len(piece):
            head = hashers[wanted.prefix_algorithm].copy()
            head.update(piece[:left])
            prefix = labelled(wanted.prefix_algorithm, head.hexdigest())
        left -= len(piece)
        for hasher in hashers.values():
            hasher.update(piece)
    return Found(
        digest=hashers[SHA256].hexdigest(),
        other=labelled(other, hashers[other].hexdigest()) if other else "",
        prefix=prefix,
    )
