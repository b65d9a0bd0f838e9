"""Brings objects in: reads each once, checks that it is the one listed, keeps a copy named by its digest."""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.config.canonical import digest_of
from spark_jobs.sources.source import Placed
from spark_jobs.sources.taken import Fetched
from spark_jobs.steps.stage.notes import Notes
from spark_jobs.storage.errors import ObjectChanged, ObjectMissing, StorageError, StoreDenied, UnsafeKey
from spark_jobs.storage.file_errors import translated
from spark_jobs.storage.keys import printable
from spark_jobs.storage.layout import object_key
from spark_jobs.storage.manifest import SetAside, StageProblem
from spark_jobs.storage.object_store import ObjectStat, ObjectStore

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
class Fetcher:
    """Fetches the objects of one run into `lake`; threads may share it.

    `known` has digests of versions that were read before, by `identity_of`; `notes` takes those read now.
    """

    lake: ObjectStore
    notes: Notes
    known: dict[str, str]

    def fetch(self, placed: Placed, origin: ObjectStore, prefix_size: int = 0) -> Fetched | StageProblem:
        """The object with its digest, copied unless its source is immutable; or why it was set aside.

        With a `prefix_size`, also the digest of so many leading bytes.
        """
        sha256 = self.known.get(identity_of(placed), "")
        prefix = self.known.get(identity_of(placed, prefix_size), "") if prefix_size else ""
        is_known = bool(sha256) and (bool(prefix) or not prefix_size)
        if is_known and (placed.source.immutable or self._is_here(sha256, placed.stat.size)):
            return Fetched(placed=placed, sha256=sha256, prefix_sha256=prefix)
        return self._noted(placed, lambda: self._read(placed, origin, prefix_size), prefix_size, is_here=True)

    def identify(self, placed: Placed, origin: ObjectStore) -> Fetched | StageProblem:
        """The object with its digest, read if no one knows it, but not copied; or why it was set aside."""
        is_here, sha256 = placed.source.immutable, self.known.get(identity_of(placed), "")
        if sha256:
            return Fetched(placed=placed, sha256=sha256, is_here=is_here)
        return self._noted(placed, lambda: _digest(_pieces(origin, placed.stat), 0), 0, is_here=is_here)

    def _noted(
        self, placed: Placed, read: Callable[[], tuple[str, str]], prefix_size: int, *, is_here: bool
    ) -> Fetched | StageProblem:
        try:
            sha256, prefix = read()
        except SourceFault as fault:
            detail = f"{placed.source.name}: {printable(placed.path)}: set aside: {fault}"
            return StageProblem(
                source=placed.source.name, path=placed.path, reason=fault.reason, detail=detail
            )
        if prefix_size:
            self.notes.add(identity_of(placed, prefix_size), prefix, 0)
        self.notes.add(identity_of(placed), sha256, placed.stat.size)
        return Fetched(placed=placed, sha256=sha256, prefix_sha256=prefix, is_here=is_here)

    def _read(self, placed: Placed, origin: ObjectStore, prefix_size: int) -> tuple[str, str]:
        pieces = _pieces(origin, placed.stat)
        if placed.source.immutable:
            return _digest(pieces, prefix_size)
        with self._scratch_file() as path:
            with translated(str(path)), path.open("wb") as file:
                sha256, prefix = _digest(_tee(pieces, file.write), prefix_size)
            if not self._is_here(sha256, placed.stat.size):
                self.lake.adopt(path, object_key(sha256))
        return sha256, prefix

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


def identity_of(placed: Placed, prefix_size: int = 0) -> str:
    """Names one version of one object, or so many leading bytes of it."""
    named = [placed.source.name, placed.path, placed.stat.version]
    return digest_of([*named, prefix_size] if prefix_size else named)


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


def _digest(pieces: Iterator[bytes], prefix_size: int) -> tuple[str, str]:
    """SHA-256 of all bytes and of the first `prefix_size`; empty for a prefix of none."""
    total, count, prefix = hashlib.sha256(), 0, ""
    for piece in pieces:
        if count < prefix_size <= count + len(piece):
            head = total.copy()
            head.update(piece[: prefix_size - count])
            prefix = head.hexdigest()
        total.update(piece)
        count += len(piece)
    return total.hexdigest(), prefix
