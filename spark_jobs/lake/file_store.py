"""A directory as an object store: rename for atomic writes, a hard link for exclusive creation.

Also what it needs of the operating system: its errors in the store's terms, mapped ranges, and `fsync`.
"""

import ctypes
import errno
import mmap
import os
import secrets
import shutil
import stat as modes
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from spark_jobs.kafka.formats.header_digest import header_digest
from spark_jobs.lake.checksums import HEADERS, labelled
from spark_jobs.lake.errors import (
    ObjectChanged,
    ObjectMissing,
    StorageError,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
    UnsafeKey,
)
from spark_jobs.lake.object_store import ObjectStat, checked, checked_prefix, printable
from spark_jobs.lake.scratch import in_use, is_abandoned, scratch_name, sweep

ERRORS: dict[int | None, tuple[type[StorageError], str]] = {
    errno.ENOENT: (ObjectMissing, "there is no such file"),
    errno.ENOTDIR: (ObjectMissing, "there is no such file"),
    errno.EACCES: (StoreDenied, "permission denied: give this user access"),
    errno.EPERM: (StoreDenied, "permission denied: give this user access"),
    errno.EROFS: (StoreDenied, "the file system is read-only"),
    errno.ENOSPC: (StoreFull, "no space left on the device: free some and run again"),
    errno.EDQUOT: (StoreFull, "the disk quota is used up: free some and run again"),
    errno.EFBIG: (StoreFull, "the file is larger than this system allows: raise the limit and run again"),
    errno.ENAMETOOLONG: (UnsafeKey, "the name is too long for this file system"),
    errno.ELOOP: (UnsafeKey, "a symbolic link, expected a file"),
    errno.EIO: (StoreUnavailable, "the device failed to answer"),
    errno.ESTALE: (StoreUnavailable, "the network file system lost the file handle"),
    errno.ETIMEDOUT: (StoreUnavailable, "the file system did not answer in time"),
}


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raises the errors of `lake.errors` instead of the operating system's, naming `where`."""
    try:
        yield
    except OSError as error:
        kind, advice = ERRORS.get(error.errno, (StorageError, str(error)))
        raise kind(f"{printable(where)}: {advice}") from error


SMALLEST_MAPPED = 2**20
"""Shorter ranges are read: mapping them would cost more."""
_POPULATE_READ = 22
"""Linux' MADV_POPULATE_READ, since 5.14: an error instead of a signal for a page that cannot be read."""


@cache
def can_map() -> bool:
    """Whether this system has MADV_POPULATE_READ."""
    try:
        with mmap.mmap(-1, mmap.PAGESIZE) as anonymous:
            anonymous.madvise(_POPULATE_READ)
    except (OSError, AttributeError):
        return False
    return True


def map_range(file: int, start: int, end: int) -> memoryview | None:
    """The bytes from `start` to `end`, mapped and in memory; None where they cannot be mapped.

    The mapping exists as long as there is a reference to it.
    """
    if end - start < SMALLEST_MAPPED or not can_map():
        return None
    before = start % mmap.ALLOCATIONGRANULARITY
    os.posix_fadvise(file, start, 2 * (end - start), os.POSIX_FADV_WILLNEED)  # what comes next, too
    try:
        mapped = mmap.mmap(file, end - start + before, prot=mmap.PROT_READ, offset=start - before)
        mapped.madvise(_POPULATE_READ)
    except (OSError, ValueError):  # the file was truncated meanwhile, or the disk failed
        return None
    return memoryview(mapped)[before:]


LARGE_BYTES = 2**20
"""Smaller files are left to the system, which writes many of them at once."""
_WRITE = 2
"""Linux' SYNC_FILE_RANGE_WRITE: starts writing dirty pages without waiting."""


def sync(path: Path) -> None:
    """Returns when the file or directory is on the disk."""
    with _opened(path) as file:
        os.fsync(file)


def begin_sync(path: Path) -> None:
    """Starts writing a large file to the disk without waiting; does nothing where the system cannot.

    Another thread makes the call: it blocks while the disk's queue is full.
    """
    sync_range = _sync_file_range()
    if sync_range is not None and path.stat().st_size >= LARGE_BYTES:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        _sync_thread().submit(_start_writing, sync_range, file)


def _start_writing(sync_range: Callable[..., int], file: int) -> None:
    try:
        sync_range(file, 0, 0, _WRITE)
    finally:
        os.close(file)


@cache
def _sync_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="sync")


@cache
def _sync_file_range() -> Callable[..., int] | None:
    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDONLY)
    try:
        yield file
    finally:
        os.close(file)


SCRATCH = ".scratch"
CHUNK_BYTES = 4 * 2**20
SYNC_THREADS = 8


class FileStore:
    """Objects are regular files below `root`; symbolic links inside it are never followed."""

    def __init__(self, root: str) -> None:
        self._root = Path(root).resolve()

    def __getstate__(self) -> dict[str, Any]:
        """A worker that gets the store has a scratch directory of its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_scratch"}

    @cached_property
    def url(self) -> str:
        return str(self._root)

    def url_of(self, key: str) -> str:
        return f"{self.url}/{checked(key)}"

    def local_path(self, key: str) -> Path | None:
        return self._path(key)

    def list(self, prefix: str = "") -> Iterator[ObjectStat]:
        start = checked_prefix(prefix)
        if not start and not self._root.is_dir():
            raise ObjectMissing(f"{self._root}: there is no such directory")
        with translated(self.url):
            yield from _walk(self._root / start, start)

    def stat(self, key: str) -> ObjectStat | None:
        try:
            with translated(key):
                return _as_stat(key, os.lstat(self._path(key)))
        except ObjectMissing:
            return None

    def checksum(self, key: str, *, version: str = "") -> str:  # noqa: ARG002 - a file system keeps none
        return ""

    def headers_checksum(self, key: str, *, version: str = "") -> str:
        """A digest of the headers of batches in a file; empty if its batches are small."""
        with translated(self.url_of(key)), self._opened(key, version) as file:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
            found = header_digest(lambda start, length: os.pread(file, length, start), os.fstat(file).st_size)
            return labelled(HEADERS, found) if found else ""

    def read(self, key: str) -> bytes:
        with translated(self.url_of(key)), self._opened(key, "") as file:
            return _range(file, 0, os.fstat(file).st_size)

    def read_range(self, key: str, start: int, length: int, *, version: str = "") -> bytes:
        with translated(self.url_of(key)), self._opened(key, version) as file:
            return _range(file, start, min(start + length, os.fstat(file).st_size))

    @contextmanager
    def viewed(self, key: str, start: int, length: int, *, version: str = "") -> Iterator[bytes | memoryview]:
        with translated(self.url_of(key)), self._opened(key, version) as file:
            end = min(start + length, os.fstat(file).st_size)
            mapped = map_range(file, start, end)
            yield mapped if mapped is not None else _range(file, start, end)

    def chunks(self, key: str, *, version: str = "") -> Iterator[bytes]:
        with translated(self.url_of(key)), self._opened(key, version) as file:
            yield from _pieces(file, 0, os.fstat(file).st_size)

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:
        with translated(self.url_of(key)), self._written(data, durable=durable) as temporary:
            temporary.replace(self._parent_made(key))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with translated(self.url_of(key)), self._written(data) as temporary:
            try:
                os.link(temporary, self._parent_made(key))
            except FileExistsError:
                return self.read(key) == data
            sync(self._path(key).parent)
        return True

    def scratch(self) -> Path:
        with translated(str(self._scratch)):
            return in_use(self._scratch)  # it is removed together with the lake

    def adopt(self, path: Path, key: str, *, durable: bool = True) -> None:
        with translated(self.url_of(key)):
            (sync if durable else begin_sync)(path)
            try:
                path.replace(self._parent_made(key))
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._adopt_from_another_device(path, key)

    def make_durable(self, keys: Iterable[str]) -> None:
        paths = [self._path(key) for key in keys]
        directories = dict.fromkeys(path.parent for path in paths)
        with translated(self.url), ThreadPoolExecutor(SYNC_THREADS) as threads:
            list(threads.map(sync, (*paths, *directories)))

    def delete(self, key: str) -> None:
        with translated(self.url_of(key)):
            self._path(key).unlink(missing_ok=True)

    @cached_property
    def _scratch(self) -> Path:
        directory = self._root / SCRATCH
        with translated(str(directory)):
            sweep(directory)
            _sweep_files(directory)
        return directory / scratch_name()

    def _adopt_from_another_device(self, path: Path, key: str) -> None:
        inside = self.scratch() / secrets.token_hex(8)
        shutil.copyfile(path, inside)
        self.adopt(inside, key)
        path.unlink()

    def _path(self, key: str) -> Path:
        return Path(self._place(key))

    def _place(self, key: str) -> str:
        """The file of `key`; refuses a symbolic link among its directories."""
        place = self.url
        *directories, name = checked(key).split("/")
        for directory in directories:
            place = f"{place}/{directory}"
            if os.path.islink(place):  # noqa: PTH114 - called millions of times: avoids a Path for each
                raise UnsafeKey(f"{printable(key)}: a symbolic link inside {self._root} is not followed")
        return f"{place}/{name}"

    def _parent_made(self, key: str) -> Path:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @contextmanager
    def _opened(self, key: str, version: str) -> Iterator[int]:
        """A descriptor of the file; its `version` is checked before and after the use."""
        file = os.open(self._place(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_version(key, file, version)
            yield file
            _check_version(key, file, version)
        finally:
            os.close(file)

    @contextmanager
    def _written(self, data: bytes, *, durable: bool = True) -> Iterator[Path]:
        temporary = self.scratch() / secrets.token_hex(8)
        try:
            temporary.write_bytes(data)
            if durable:
                sync(temporary)
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)


def _walk(directory: Path, prefix: str) -> Iterator[ObjectStat]:
    """Files in key order: a directory sorts as its name with a slash."""
    try:
        with os.scandir(directory) as entries:
            found = sorted((_sort_name(entry), entry) for entry in entries if prefix or entry.name != SCRATCH)
    except (FileNotFoundError, NotADirectoryError):
        return  # removed since its parent was read, or never made
    for name, entry in found:
        if name.endswith("/"):
            yield from _walk(Path(entry.path), prefix + name)
        else:
            with suppress(FileNotFoundError):
                yield _as_stat(prefix + name, entry.stat(follow_symlinks=False))


def _sort_name(entry: os.DirEntry[str]) -> str:
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name


def _as_stat(key: str, found: os.stat_result) -> ObjectStat:
    problem = "" if modes.S_ISREG(found.st_mode) else "not a regular file"
    return ObjectStat(
        key=key,
        size=found.st_size,
        version=_version(found),
        problem=problem,
        modified_at=found.st_mtime_ns // 1_000_000,
    )


def _version(found: os.stat_result) -> str:
    return f"{found.st_size:x}-{found.st_mtime_ns:x}-{found.st_ino:x}"


def _check_version(key: str, file: int, version: str) -> None:
    found = os.fstat(file)
    if not modes.S_ISREG(found.st_mode):
        raise UnsafeKey(f"{printable(key)}: not a regular file")
    if version and _version(found) != version:
        raise ObjectChanged(
            f"{printable(key)}: changed while it was read: its size or modification time differ"
        )


def _pieces(file: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes from `start` to `end` or the end of the file, in chunks."""
    while start < end and (piece := os.pread(file, min(CHUNK_BYTES, end - start), start)):
        yield piece
        start += len(piece)


def _range(file: int, start: int, end: int) -> bytes:
    """The bytes from `start` to `end` or the end of the file, with one system call if it returns all."""
    data = os.pread(file, max(end - start, 0), start)
    if start + len(data) >= end:
        return data
    return b"".join((data, *_pieces(file, start + len(data), end)))


def _sweep_files(scratch: Path) -> None:
    """Removes abandoned files of versions that had no directory for each process."""
    for path in scratch.iterdir() if scratch.is_dir() else ():
        if path.is_file() and is_abandoned(path):
            path.unlink(missing_ok=True)
