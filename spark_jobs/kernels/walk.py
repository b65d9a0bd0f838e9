"""Batch boundaries without headers: the cheapest way to split a large object into ranges.

A position inside an object says nothing about batches; only walking from a known boundary does.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import kernel
from spark_jobs.kernels.entry import SMALLEST_ENTRY, check_entry
from spark_jobs.kernels.memory import Bytes, as_bytes
from spark_jobs.kernels.stop import GO_ON, ScanStop, StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundaries:
    """Where batches begin, the first at the start of the walk, and where the walk stopped."""

    positions: npt.NDArray[np.int64]
    stop: ScanStop


@kernel
def _walk(
    buffer: Bytes, start: int, end: int, every: int, positions: npt.NDArray[np.int64]
) -> tuple[int, int, int]:
    """(boundaries written, position, why it stopped)."""
    position, count, wanted = start, 0, start
    while True:
        reason, size = check_entry(buffer, position, end, True)
        if reason != GO_ON:
            return count, position, reason
        if position >= wanted:
            positions[count] = position
            count += 1
            wanted = position + every
        position += size


def walk_boundaries(buffer: Any, *, start: int = 0, end: int | None = None, every: int) -> Boundaries:
    """Boundaries of `buffer[start:end]` that are at least `every` bytes apart; nothing but lengths is read.

    `start` is a boundary. Each range from one boundary to the next, and from the last one to the stop, holds
    whole batches and can be scanned on its own.
    """
    data = as_bytes(buffer)
    last = data.size if end is None else end
    positions = np.empty(max(last - start, 0) // max(every, SMALLEST_ENTRY) + 1, dtype=np.int64)
    count, position, reason = _walk(data, start, last, every, positions)
    return Boundaries(
        positions=positions[:count], stop=ScanStop(position=position, reason=StopReason(reason))
    )
