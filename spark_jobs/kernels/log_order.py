"""Which batches of a segment are at offsets that cannot be theirs: the twin of `protocol.log_order`.

`OrderWatch` goes along with the rows of a copy and says whether all is well, which it nearly always is;
`find_misplaced` looks at one segment as a whole.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import kernel
from spark_jobs.kernels.memory import read_only

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class SegmentColumns(NamedTuple):
    """The segments of a copy by ascending object order: where they begin and end, and which have no holes."""

    object_order: Int64s
    start: Int64s
    end: Int64s
    is_dense: Flags


class OrderColumns(NamedTuple):
    """What is looked at of a copy's rows."""

    object_order: npt.NDArray[np.int32]
    base_offset: Int64s
    last_offset_delta: npt.NDArray[np.int32]


class MisplacedRows(NamedTuple):
    """Rows by their place, and between which base offsets their neighbours leave room for them."""

    place: Int64s
    earliest: Int64s
    latest: Int64s


@kernel
def _is_in_order(rows: OrderColumns, problem: Flags, segments: SegmentColumns, memory: Int64s) -> bool:
    """`memory` is (object order, index of the segment, offsets of its batches, offsets missing so far)."""
    order, at, taken, missing = memory[0], memory[1], memory[2], memory[3]
    for index in range(rows.base_offset.size):
        if rows.object_order[index] != order:
            order = rows.object_order[index]
            at = np.searchsorted(segments.object_order, order)
            taken, missing = 0, segments.start[at]
        if problem[index]:
            continue
        base, count = rows.base_offset[index], max(rows.last_offset_delta[index], 0) + 1
        # Without the first comparison the difference could overflow.
        if base < segments.start[at] or base - taken < missing or base > segments.end[at] - count:
            return False
        if segments.is_dense[at] and base - taken != missing:
            return False
        missing = base - taken
        taken += count
    memory[0], memory[1], memory[2], memory[3] = order, at, taken, missing
    return True


class OrderWatch:
    """Looks at consecutive chunks of one copy."""

    def __init__(self, segments: SegmentColumns) -> None:
        self._segments = segments
        self._memory = np.full(4, -1, dtype=np.int64)

    def is_in_order(self, rows: OrderColumns, problem: Flags) -> bool:
        """Whether every row fits; once one does not, `find_misplaced` has to say which, and the watch ends.

        A segment without holes by design that has one is called out as well.
        """
        columns = OrderColumns(
            object_order=read_only(rows.object_order, np.int32),
            base_offset=read_only(rows.base_offset, np.int64),
            last_offset_delta=read_only(rows.last_offset_delta, np.int32),
        )
        return _is_in_order(columns, read_only(problem, np.bool_), self._segments, self._memory)


@kernel
def _lengths(numbers: Int64s, ends: Int64s, lengths: Int64s) -> None:
    """The longest reading that ends with each number; `ends[i]` is the lowest end of those of `i + 1`."""
    longest = 0
    for index in range(numbers.size):
        low, high = 0, longest
        while low < high:
            middle = (low + high) // 2
            if ends[middle] <= numbers[index]:
                low = middle + 1
            else:
                high = middle
        ends[low] = numbers[index]
        lengths[index] = low + 1
        longest = max(longest, low + 1)


def _longest(numbers: Int64s) -> Int64s:
    lengths = np.empty(numbers.size, dtype=np.int64)
    _lengths(numbers, np.empty(numbers.size, dtype=np.int64), lengths)
    return lengths


def _in_every_best_reading(numbers: Int64s) -> Flags:
    upwards, downwards = _longest(numbers), _longest(-numbers[::-1])[::-1]
    longest = int(upwards.max())
    whole: Flags = numbers == numbers[0]
    if numbers[-1] == numbers[0] and np.count_nonzero(whole) == longest:
        return whole
    best: Flags = upwards + downwards > longest
    alone: Flags = best & (np.bincount(upwards[best], minlength=longest + 1) == 1)[upwards]
    return alone


def find_misplaced(base_offset: Int64s, count: Int64s, *, start: int, end: int) -> MisplacedRows:
    """The rows of one segment that cannot be where they say."""
    before = np.concatenate(([0], np.cumsum(count)))
    last = end - int(before[-1])
    missing = np.concatenate(([start], np.maximum(base_offset, -1) - before[:-1], [last]))
    if not (np.diff(missing) < 0).any():
        return MisplacedRows._make(np.empty(0, dtype=np.int64) for _ in MisplacedRows._fields)
    kept = _in_every_best_reading(missing)
    place = np.flatnonzero(~kept[1:-1])
    known, values = np.flatnonzero(kept), np.concatenate(([start], missing[kept], [last]))
    behind = np.searchsorted(known, place + 1)
    return MisplacedRows(
        place=place, earliest=before[place] + values[behind], latest=before[place] + values[behind + 1]
    )


def count_of(last_offset_delta: npt.NDArray[np.int32]) -> Int64s:
    """How many offsets batches take: at least one each, whatever an ill-made header says."""
    return np.maximum(last_offset_delta.astype(np.int64), 0) + 1
