"""The walk through an object: every byte belongs to a batch, or to a stretch with the reason why it is none.

Where the walk goes from a position depends on the object's bytes alone, not on windows or on where it began.
So the rows of an object are the same however it is split, once every range begins at a boundary of the walk.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from struct import Struct
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.errors import BadLength, BadMagic, CorruptData, LimitExceeded, OnceoverError, TornBatch
from spark_jobs.kafka.formats.limits import RecordLimits
from spark_jobs.kafka.formats.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_V2,
    Codec,
)
from spark_jobs.kafka.log.segment import looks_like_batch, scan
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.decode import count_without_key
from spark_jobs.kernels.scan import HeaderScan, StopReason, scan_chunk
from spark_jobs.lake.errors import StorageError

# The window: the bytes of an object that are in memory.

FEW = 16
"""A window's share that is rather read again than copied together with what follows."""

Data = TypeVar("Data", bytes, bytes | memoryview)

ReadRange = Callable[[int, int], bytes]
"""(start, length) → the object's bytes there, fewer only if it ends."""
ViewRange = Callable[[int, int], AbstractContextManager[bytes | memoryview]]
"""The same without a copy."""


class Unreadable(OnceoverError):
    """The object no longer exists, or is not the one that was staged; the message has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedBytes:
    """One staged object: `size` as in the manifest, and the functions that read its bytes."""

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
        """The same without a copy."""
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
class ReadWindow:
    """The bytes of an object from `start` on that are in memory."""

    staged: StagedBytes
    start: int
    data: bytes | memoryview = b""

    @property
    def end(self) -> int:
        """Position after the last byte held."""
        return self.start + len(self.data)

    @contextmanager
    def moved(self, start: int, end: int) -> Iterator["ReadWindow"]:
        """The window from `start` to `end` without a copy where that is possible."""
        if self.staged.view_range is None or end <= start:
            yield self.move(start, end)
            return
        with self.staged.viewed(self.staged.view_range, start, end) as data:
            yield ReadWindow(staged=self.staged, start=start, data=data)

    def move(self, start: int, end: int) -> "ReadWindow":
        """The window from `start` to `end`; many bytes that are held already are not read again."""
        held = self.end - start if self.start <= start else 0
        kept = bytes(self.data[start - self.start :]) if held > (end - start) // FEW else b""
        return ReadWindow(
            staged=self.staged, start=start, data=kept + self.staged.read(start + len(kept), end)
        )

    def look(self, start: int, length: int) -> bytes:
        """`length` bytes at `start`, fewer at the object's end; read for the moment if not held."""
        end = min(start + length, self.staged.size)
        if self.start <= start and end <= self.end:
            return bytes(self.data[start - self.start : end - self.start])
        return self.staged.read(start, end)


# Bytes that are no batch.

_PREFIX = Struct(">8xi4xb")  # size, magic
_SMALLEST_SIZE = 14
ZEROS = f"{BadLength.problem}: zeros instead of a batch"
GIVEN_UP = "; what follows does not look like a batch, so the rest of the object is not read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """`size` bytes from `position` on that are no batch; `lost` if the walk cannot continue behind them."""

    position: int
    size: int
    reason: str
    lost: bool


def damaged_batch(window: ReadWindow, position: int, size: int, max_batch_bytes: int) -> Damage:
    """The damage of a whole batch that is too large, or whose checksum is wrong."""
    if size > max_batch_bytes:
        return _one_batch(window, position, size, _too_large(size, max_batch_bytes))
    return _one_batch(window, position, size, _scan_problem(window.look(position, size)))


def damage_at(window: ReadWindow, position: int, max_batch_bytes: int) -> Damage | None:
    """Why no batch begins at `position`; None if the window is only too small to see the whole of it."""
    rest = window.staged.size - position
    head = window.look(position, HEADER_SIZE)
    if len(head) <= _PREFIX.size:
        return _rest(position, rest, f"{TornBatch.problem}: expected a batch, found {rest} bytes")
    length, magic = _PREFIX.unpack_from(head)
    size = LOG_OVERHEAD + length
    if length < _SMALLEST_SIZE:
        return _rest(position, rest, _too_short(length) if any(head) else ZEROS)
    if size > rest:
        return _rest(position, rest, f"{TornBatch.problem}: expected {size} bytes, found {rest} to the end")
    if not 0 <= magic <= MAGIC_V2:
        return _one_batch(window, position, size, f"{BadMagic.problem}: expected 0, 1 or 2, found {magic}")
    if size > max_batch_bytes:
        return _one_batch(window, position, size, _too_large(size, max_batch_bytes))
    return None if position + size > window.end else _one_batch(window, position, size, _too_short(length))


def _one_batch(window: ReadWindow, position: int, size: int, reason: str) -> Damage:
    after = position + size
    if after == window.staged.size or looks_like_batch(window.look(after, HEADER_SIZE)):
        return Damage(position=position, size=size, reason=reason, lost=False)
    return _rest(position, window.staged.size - position, reason + GIVEN_UP)


def _rest(position: int, size: int, reason: str) -> Damage:
    return Damage(position=position, size=size, reason=reason, lost=True)


def _scan_problem(batch: bytes) -> str:
    try:
        next(scan(batch))
    except CorruptData as error:
        return f"{error.problem}: expected {error.expected}, found {error.found}"
    raise AssertionError("the kernel refused a batch that its pure twin takes")


def _too_large(size: int, max_batch_bytes: int) -> str:
    return f"{LimitExceeded.problem}: expected a batch of at most {max_batch_bytes} bytes, found {size}"


def _too_short(length: int) -> str:
    return f"{BadLength.problem}: found {length}, too few for a batch"


FEWEST_ROWS, MOST_ROWS = 1 << 12, 1 << 17
"""Room for rows at a time: at first, and once batches were too small for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkLimits:
    """`window_bytes` are read at a time; a batch of more than `max_batch_bytes` is never held.

    With `record_limits`, records are read within them to count those without a key.
    """

    window_bytes: int = 2 * 2**20
    max_batch_bytes: int = 100 * 2**20
    record_limits: RecordLimits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Some of a walk: whole batches, of which `damaged` are none to trust, and then perhaps a damage.

    Together they cover the object's bytes up to `end` without a hole. `records_without_key` are counted for
    every batch, or None.
    """

    columns: HeaderColumns
    damaged: tuple[Damage, ...]
    damage: Damage | None
    end: int
    records_without_key: npt.NDArray[np.int32] | None = None


def walk(staged: StagedBytes, *, start: int, stop: int, limits: WalkLimits) -> Iterator[Stretch]:
    """Every batch that begins in `start`..`stop`, whole, where `start` is a boundary of the walk."""
    window, needed, room = ReadWindow(staged=staged, start=start), HEADER_SIZE, FEWEST_ROWS
    while start < stop:
        end = max(min(start + limits.window_bytes, stop), start + needed)
        with window.moved(start, min(end, staged.size)) as window:
            stretch = _next_stretch(window, start, stop, limits, room)
            start, needed = stretch.end, _needed(window, stretch.end, limits.max_batch_bytes)
        yield stretch
        room = MOST_ROWS if stretch.columns.rows == room else room


def _next_stretch(window: ReadWindow, start: int, stop: int, limits: WalkLimits, room: int) -> Stretch:
    scan = scan_chunk(window.data, capacity=room, stop_at_bad_crc=False)
    columns = _absolute(scan, window.start, stop)
    damaged = _damaged_batches(window, columns, limits)
    without_key = _records_without_key(window, columns, limits)
    if damaged and damaged[-1].lost:
        return _cut(columns, without_key, damaged)
    end = _end_of(columns, start)
    damage = damage_at(window, end, limits.max_batch_bytes) if _is_stuck(scan, end, stop) else None
    return Stretch(
        columns=columns,
        records_without_key=without_key,
        damaged=damaged,
        damage=damage,
        end=end + (damage.size if damage else 0),
    )


def _records_without_key(
    window: ReadWindow, columns: HeaderColumns, limits: WalkLimits
) -> npt.NDArray[np.int32] | None:
    """For every row how many of its records have no key, 0 where there is no data batch to trust."""
    if limits.record_limits is None:
        return None
    counts = np.zeros(columns.rows, dtype=np.int32)
    readable = columns.crc_ok & (columns.magic == MAGIC_V2) & (columns.size <= limits.max_batch_bytes)
    readable &= (columns.attributes & CONTROL_FLAG == 0) & (columns.attributes & CODEC_MASK <= max(Codec))
    headers = columns.pick(readable)
    headers.position[:] -= window.start
    counts[readable] = count_without_key(
        window.data, headers, origin=window.start, limits=limits.record_limits
    )
    return counts


def _absolute(scan: HeaderScan, origin: int, stop: int) -> HeaderColumns:
    """The rows that begin before `stop`, with positions in the object instead of in the window."""
    scan.columns.position[:] += origin
    return scan.columns.part(0, int(np.searchsorted(scan.columns.position, stop)))


def _damaged_batches(window: ReadWindow, columns: HeaderColumns, limits: WalkLimits) -> tuple[Damage, ...]:
    """Rows with a wrong checksum or of too large a batch; the last one may be lost, and ends the walk."""
    found: list[Damage] = []
    for row in np.flatnonzero(~columns.crc_ok | (columns.size > limits.max_batch_bytes)):
        position, size = int(columns.position[row]), int(columns.size[row])
        found.append(damaged_batch(window, position, size, limits.max_batch_bytes))
        if found[-1].lost:
            break
    return tuple(found)


def _cut(
    columns: HeaderColumns, without_key: npt.NDArray[np.int32] | None, damaged: tuple[Damage, ...]
) -> Stretch:
    *others, last = damaged
    rows = int(np.searchsorted(columns.position, last.position))
    return Stretch(
        columns=columns.part(0, rows),
        records_without_key=None if without_key is None else without_key[:rows],
        damaged=tuple(others),
        damage=last,
        end=last.position + last.size,
    )


def _end_of(columns: HeaderColumns, start: int) -> int:
    return int(columns.position[-1] + columns.size[-1]) if columns.rows else start


def _is_stuck(scan: HeaderScan, end: int, stop: int) -> bool:
    return end < stop and scan.stop.reason not in {StopReason.END, StopReason.FULL}


def _needed(window: ReadWindow, position: int, max_batch_bytes: int) -> int:
    """Bytes of the batch at `position`, if the window shows a length that may be held; else of a header."""
    place = position - window.start
    length = window.data[place + LENGTH_OFFSET : place + LOG_OVERHEAD]
    size = LOG_OVERHEAD + int.from_bytes(length, signed=True)
    return size if HEADER_SIZE < size <= max_batch_bytes else HEADER_SIZE
