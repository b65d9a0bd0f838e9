"""The interface of an object store, and safe keys: relative, `/`-separated, unable to leave their root."""

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from spark_jobs.lake.errors import UnsafeKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStat:
    """One object as it was when it was listed.

    `version` changes whenever the bytes do (S3: the ETag; files: modification time and inode), but may also
    change without. `problem` says why it cannot be read as an object at all; empty for a proper one.
    `modified_at` is when the store took these bytes (S3: LastModified; files: modification time), ms since
    1970, 0 if it does not say.
    """

    key: str
    size: int
    version: str
    problem: str = ""
    modified_at: int = 0


class ObjectStore(Protocol):
    """Objects below one root. No key leaves the root; errors are those of `lake.errors`."""

    @property
    def url(self) -> str:
        """The root: an absolute path, or `s3://bucket/prefix`."""

    def url_of(self, key: str) -> str:
        """The object's address, for messages and for other readers."""

    def local_path(self, key: str) -> Path | None:
        """The object's path in the file system, if it has one: then it can be mapped instead of read."""

    def list(self, prefix: str = "") -> Iterator[ObjectStat]:
        """Every object below the directory `prefix`, in the order of their keys' bytes, page by page."""

    def stat(self, key: str) -> ObjectStat | None:
        """The object as it is now; None if there is none."""

    def checksum(self, key: str, *, version: str = "") -> str:
        """A digest of all its bytes that the store keeps (`checksums`), empty if it keeps none.

        No content is read. With a `version`, raises `ObjectChanged` if the object has another one.
        """

    def read(self, key: str) -> bytes:
        """The whole of a small object."""

    def read_range(self, key: str, start: int, length: int, *, version: str = "") -> bytes:
        """Up to `length` bytes from `start` on, fewer only at the object's end.

        With a `version`, raises `ObjectChanged` if the object has another one.
        """

    def viewed(
        self, key: str, start: int, length: int, *, version: str = ""
    ) -> AbstractContextManager[bytes | memoryview]:
        """The same range for the time of the context, mapped instead of copied in a file system.

        The `version` is checked at the beginning and at the end. Copy what is needed afterwards.
        """

    def chunks(self, key: str, *, version: str = "") -> Iterator[bytes]:
        """The whole object in pieces of bounded size; `version` as for `read_range`."""

    def put(self, key: str, data: bytes, *, durable: bool = True) -> None:
        """Writes or replaces; a reader sees all of the old or all of the new bytes.

        Without `durable`, a power failure may truncate the object until `make_durable` was called for it.
        """

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Writes only if no such object exists, decided by the store in one step.

        True when the object now holds exactly `data`, so that an answer lost on the way does no harm.
        """

    def scratch(self) -> Path:
        """A local directory in which to prepare a file for `adopt`."""

    def adopt(self, path: Path, key: str, *, durable: bool = True) -> None:
        """Moves a finished local file of any size into the store; atomic and `durable` like `put`."""

    def make_durable(self, keys: Iterable[str]) -> None:
        """Returns when these objects survive a power failure."""

    def delete(self, key: str) -> None:
        """Removes the object if it exists."""


MAX_KEY_BYTES = 1024
"""The limit of S3; file systems allow more."""
MOST_SHOWN = 10_000
"""Most characters of one line of a message; longer lines are truncated and marked."""
_CLIMBING = frozenset(("", ".", ".."))
_CONTROL, _SURROGATE = re.compile(r"[\x00-\x1f\x7f]"), re.compile(r"[\ud800-\udfff]")


def key_problem(key: str) -> str:
    """Why `key` is not a safe name below a root; empty if it is one."""
    if not key or not _CLIMBING.isdisjoint(key.split("/")):
        return "a name with an empty, '.' or '..' part could leave its root"
    if _CONTROL.search(key):
        return "a name with control characters"
    if _SURROGATE.search(key):
        return "a name that is not UTF-8"
    if len(key.encode()) > MAX_KEY_BYTES:
        return f"a name of more than {MAX_KEY_BYTES} bytes"
    return ""


def join_key(*parts: str) -> str:
    """The parts as one key; a part may contain slashes, but not leave the root."""
    return checked("/".join(parts))


def checked(key: str) -> str:
    """`key` itself, if it is safe."""
    problem = key_problem(key)
    if problem:
        raise UnsafeKey(f"{printable(key)}: {problem}")
    return key


def checked_prefix(prefix: str) -> str:
    """A directory prefix: empty, or a safe key with a slash at its end."""
    if prefix:
        checked(prefix.removesuffix("/"))
    return prefix if not prefix or prefix.endswith("/") else f"{prefix}/"


def legible(text: str) -> str:
    """A message that may contain names from outside: its lines, without control characters."""
    return "\n".join(printable(line, shown=MOST_SHOWN) for line in text.splitlines())


def printable(key: str, *, shown: int = 200) -> str:
    """A name for messages: control characters escaped, truncated if it is long."""
    text = key if key.isprintable() else ascii(key)[1:-1]
    return text if len(text) <= shown else f"{text[:shown]}… ({len(key)} characters)"
