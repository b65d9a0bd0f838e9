"""An object seen through a window: what a worker holds of it at one time."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.storage.errors import StorageError

FEW = 16
"""A window's share that is rather read again than copied together with what follows."""

Data = TypeVar("Data", bytes, bytes | memoryview)

ReadRange = Callable[[int, int], bytes]
"""(start, length) → the object's bytes there, fewer only if it ends."""
ViewRange = Callable[[int, int], AbstractContextManager[bytes | memoryview]]
"""The same for a look at them, without a copy."""


class Unreadable(OnceoverError):
    """The object is gone for good, or is not the one that was staged; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedBytes:
    """One staged object: `size` as the manifest says, and the ways to its bytes."""

    size: int
    read_range: ReadRange
    view_range: ViewRange | None = None

    def read(self, start: int, end: int) -> bytes:
        """Exactly the bytes from `start` to `end`; a store that fails for now raises its own error."""
        if end <= start:
            return b""
        with _reported():
            return self._whole(self.read_range(start, end - start), start, end)

    @contextmanager
    def viewed(self, view_range: ViewRange, start: int, end: int) -> Iterator[bytes | memoryview]:
        """The same for a look at them."""
        with _reported(), view_range(start, end - start) as data:
            yield self._whole(data, start, end)

    def _whole(self, data: Data, start: int, end: int) -> Data:
        if len(data) != end - start:
            raise Unreadable(f"cannot be read: expected {self.size} bytes, found {start + len(data)}")
        return data


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except StorageError as error:
        if error.transient:
            raise
        raise Unreadable(f"cannot be read: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The bytes of an object from `start` on that are in memory."""

    staged: StagedBytes
    start: int
    data: bytes | memoryview = b""

    @property
    def end(self) -> int:
        """Position after the last byte held."""
        return self.start + len(self.data)

    @contextmanager
    def moved(self, start: int, end: int) -> Iterator["Window"]:
        """The window from `start` to `end` for a look through it, without a copy where that is possible."""
        if self.staged.view_range is None or end <= start:
            yield self.move(start, end)
            return
        with self.staged.viewed(self.staged.view_range, start, end) as data:
            yield Window(staged=self.staged, start=start, data=data)

    def move(self, start: int, end: int) -> "Window":
        """The window from `start` to `end`; many bytes that are held already are not read again."""
        held = self.end - start if self.start <= start else 0
        kept = bytes(self.data[start - self.start :]) if held > (end - start) // FEW else b""
        return Window(staged=self.staged, start=start, data=kept + self.staged.read(start + len(kept), end))

    def look(self, start: int, length: int) -> bytes:
        """`length` bytes at `start`, fewer at the object's end; read for the moment if not held."""
        end = min(start + length, self.staged.size)
        if self.start <= start and end <= self.end:
            return bytes(self.data[start - self.start : end - self.start])
        return self.staged.read(start, end)
