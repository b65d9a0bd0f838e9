"""Brings objects in: reads each once, checks that it is the one listed, keeps a copy named by its digest."""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.config.canonical import digest_of
from spark_jobs.storage.errors import ObjectChanged, ObjectMissing, StorageError, StoreDenied, UnsafeKey
from spark_jobs.storage.file_errors import translated
from spark_jobs.storage.keys import printable
from spark_jobs.storage.layout import object_key
from spark_jobs.storage.manifest import SetAside, StageProblem
from spark_jobs.storage.notes import Notes
from spark_jobs.storage.object_store import ObjectStat, ObjectStore
from spark_jobs.storage.placement import Placed

REASONS: dict[type[StorageError], SetAside] = {
    ObjectMissing: SetAside.VANISHED,
    ObjectChanged: SetAside.CHANGED,
    StoreDenied: SetAside.UNREADABLE,
    UnsafeKey: SetAside.UNSAFE_NAME,
}
"""Faults of one object at its source; any other error is a store's and stops the night."""


class SourceFault(StorageError):
    """One object that cannot be taken as it was listed."""

    def __init__(self, reason: SetAside, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """An object whose bytes are known and there to be read."""

    placed: Placed
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """Fetches the objects of one night into `lake`; threads may share it.

    `known` tells digests of versions that were read before, by `identity_of`; `notes` takes those read now.
    """

    lake: ObjectStore
    notes: Notes
    known: dict[str, str]

    def fetch(self, placed: Placed, origin: ObjectStore) -> Fetched | StageProblem:
        """The object with its digest, copied unless its source is immutable; or why it was set aside."""
        sha256 = self.known.get(identity_of(placed), "")
        if sha256 and (placed.source.immutable or self._is_here(sha256, placed.stat.size)):
            return Fetched(placed=placed, sha256=sha256)
        try:
            sha256 = self._read(placed, origin)
        except SourceFault as fault:
            detail = f"{placed.source.name}: {printable(placed.path)}: set aside: {fault}"
            return StageProblem(
                source=placed.source.name, path=placed.path, reason=fault.reason, detail=detail
            )
        self.notes.add(identity_of(placed), sha256, placed.stat.size)
        return Fetched(placed=placed, sha256=sha256)

    def _read(self, placed: Placed, origin: ObjectStore) -> str:
        pieces = _pieces(origin, placed.stat)
        if placed.source.immutable:
            return _digest(pieces)
        with self._scratch_file() as path:
            with translated(str(path)), path.open("wb") as file:
                sha256 = _digest(_tee(pieces, file.write))
            if not self._is_here(sha256, placed.stat.size):
                self.lake.adopt(path, object_key(sha256))
        return sha256

    def _is_here(self, sha256: str, size: int) -> bool:
        """Whether the lake holds these bytes; they come in whole or not at all, so the size is proof."""
        found = self.lake.stat(object_key(sha256))
        return found is not None and found.size == size

    @contextmanager
    def _scratch_file(self) -> Iterator[Path]:
        path = self.lake.scratch() / secrets.token_hex(8)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def identity_of(placed: Placed) -> str:
    """Names one version of one object."""
    return digest_of([placed.source.name, placed.path, placed.stat.version])


def _pieces(origin: ObjectStore, stat: ObjectStat) -> Iterator[bytes]:
    """The object's bytes; at the end it has proved to be the one that was listed."""
    count = 0
    try:
        for piece in origin.chunks(stat.key, version=stat.version):
            count += len(piece)
            yield piece
    except tuple(REASONS) as error:
        raise SourceFault(REASONS[type(error)], str(error)) from error
    if count != stat.size:
        raise SourceFault(SetAside.CHANGED, f"listed with {stat.size} bytes, but {count} could be read")


def _tee(pieces: Iterator[bytes], write: Callable[[bytes], object]) -> Iterator[bytes]:
    for piece in pieces:
        write(piece)
        yield piece


def _digest(pieces: Iterator[bytes]) -> str:
    total = hashlib.sha256()
    for piece in pieces:
        total.update(piece)
    return total.hexdigest()
