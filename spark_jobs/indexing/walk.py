"""The walk through an object: every byte belongs to a batch, or to a stretch with the reason why it is none.

Where the walk goes from a position depends on the object's bytes alone, not on windows or on where it began.
So the rows of an object are the same however it is split, once every range begins at a boundary of the walk.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spark_jobs.indexing.damage import Damage, damage_at, damaged_batch
from spark_jobs.indexing.window import StagedBytes, Window
from spark_jobs.kernels.batches import count_without_key
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.headers import HeaderScan, scan_chunk
from spark_jobs.kernels.stop import StopReason
from spark_jobs.protocol.limits import Limits
from spark_jobs.protocol.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_V2,
    Codec,
)

FEWEST_ROWS, MOST_ROWS = 1 << 12, 1 << 17
"""Room for rows at a time: at first, and once batches were too small for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkLimits:
    """`window_bytes` are read at a time; a batch of more than `max_batch_bytes` is never held.

    With `record_limits`, records are read within them to count those without a key.
    """

    window_bytes: int = 2 * 2**20
    max_batch_bytes: int = 100 * 2**20
    record_limits: Limits | None = None


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
    window, needed, room = Window(staged=staged, start=start), HEADER_SIZE, FEWEST_ROWS
    while start < stop:
        end = max(min(start + limits.window_bytes, stop), start + needed)
        with window.moved(start, min(end, staged.size)) as window:
            stretch = _next_stretch(window, start, stop, limits, room)
            start, needed = stretch.end, _needed(window, stretch.end, limits.max_batch_bytes)
        yield stretch
        room = MOST_ROWS if stretch.columns.rows == room else room


def _next_stretch(window: Window, start: int, stop: int, limits: WalkLimits, room: int) -> Stretch:
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
    window: Window, columns: HeaderColumns, limits: WalkLimits
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


def _damaged_batches(window: Window, columns: HeaderColumns, limits: WalkLimits) -> tuple[Damage, ...]:
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


def _needed(window: Window, position: int, max_batch_bytes: int) -> int:
    """Bytes of the batch at `position`, if the window shows a length that may be held; else of a header."""
    place = position - window.start
    length = window.data[place + LENGTH_OFFSET : place + LOG_OVERHEAD]
    size = LOG_OVERHEAD + int.from_bytes(length, signed=True)
    return size if HEADER_SIZE < size <= max_batch_bytes else HEADER_SIZE
