"""An object seen through a window: what a worker holds of it at one time."""

from collections.abc import Callable
from dataclasses import dataclass

from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.storage.errors import StorageError

FEW = 16
"""A window's share that is rather read again than copied together with what follows."""

ReadRange = Callable[[int, int], bytes]
"""(start, length) → the object's bytes there, fewer only if it ends."""


class Unreadable(OnceoverError):
    """The object is gone for good, or is not the one that was staged; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedBytes:
    """One staged object: `size` as the manifest says, and the way to its bytes."""

    size: int
    read_range: ReadRange

    def read(self, start: int, end: int) -> bytes:
        """Exactly the bytes from `start` to `end`; a store that fails for now raises its own error."""
        if end <= start:
            return b""
        try:
            data = self.read_range(start, end - start)
        except StorageError as error:
            if error.transient:
                raise
            raise Unreadable(f"cannot be read: {error}") from error
        if len(data) != end - start:
            raise Unreadable(f"cannot be read: expected {self.size} bytes, found {start + len(data)}")
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The bytes of an object from `start` on that are in memory."""

    staged: StagedBytes
    start: int
    data: bytes = b""

    @property
    def end(self) -> int:
        """Position after the last byte held."""
        return self.start + len(self.data)

    def move(self, start: int, end: int) -> "Window":
        """The window from `start` to `end`; many bytes that are held already are not read again."""
        held = self.end - start if self.start <= start else 0
        kept = self.data[start - self.start :] if held > (end - start) // FEW else b""
        return Window(staged=self.staged, start=start, data=kept + self.staged.read(start + len(kept), end))

    def look(self, start: int, length: int) -> bytes:
        """`length` bytes at `start`, fewer at the object's end; read for the moment if not held."""
        end = min(start + length, self.staged.size)
        if self.start <= start and end <= self.end:
            return self.data[start - self.start : end - self.start]
        return self.staged.read(start, end)
