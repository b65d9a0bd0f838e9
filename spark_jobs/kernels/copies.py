"""Merges copies of a log and finds misplaced batches: twins of `kafka.log.replica_copies` and `log_order`.

Call `CopyMerger.merge` with consecutive chunks of the merged copies, and the order watch with consecutive
chunks of one copy.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.checkpoints import UNDEFINED_EPOCH, EpochEntry
from spark_jobs.kafka.formats.record_batch import NO_PRODUCER_ID
from spark_jobs.kafka.producers.producer_state import NO_OFFSET
from spark_jobs.kafka.producers.verdict import VERDICTS, Verdict
from spark_jobs.kernels.admission import ACCEPTED
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import read_only
from spark_jobs.kernels.producers import Rows

OVERLAP = VERDICTS.index(Verdict.OVERLAP)
DIVERGENT = VERDICTS.index(Verdict.DIVERGENT)
GAP = np.dtype([("place", np.int64), ("first_offset", np.int64), ("last_offset", np.int64)])
"""Offsets that no copy holds, found before the batch at `place` of the chunk."""
_FIELDS = 7

Int64s = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int8]


class CopyColumns(NamedTuple):
    """The columns of a batch that are compared."""

    base_offset: Int64s
    last_offset_delta: npt.NDArray[np.int32]
    partition_leader_epoch: npt.NDArray[np.int32]
    producer_id: Int64s
    producer_epoch: npt.NDArray[np.int16]
    base_sequence: npt.NDArray[np.int32]
    max_timestamp: Int64s
    crc: npt.NDArray[np.uint32]


class _Epochs(NamedTuple):
    """Leader epochs ascending; `floors[i]` is the smallest start offset of epoch `i` and all newer ones."""

    epochs: Int64s
    starts: Int64s
    floors: Int64s


def _epochs_of(entries: Sequence[EpochEntry]) -> _Epochs:
    ordered = sorted(entries, key=lambda entry: (entry.epoch, entry.start_offset))
    starts = np.array([entry.start_offset for entry in ordered], dtype=np.int64)
    return _Epochs(
        epochs=np.array([entry.epoch for entry in ordered], dtype=np.int64),
        starts=starts,
        floors=np.minimum.accumulate(starts[::-1])[::-1].copy(),
    )


@helper
def _is_overwritten(epoch: int, last_offset: int, known: _Epochs) -> bool:
    if epoch == UNDEFINED_EPOCH:
        return False
    newer = np.searchsorted(known.epochs, epoch, side="right")
    return bool(newer < known.epochs.size and known.floors[newer] <= last_offset)


@helper
def _is_of_leader(epoch: int, base_offset: int, known: _Epochs) -> bool:
    if epoch == UNDEFINED_EPOCH:
        return True
    owner = np.searchsorted(known.starts, base_offset, side="right") - 1
    return bool(owner < 0 or known.epochs[owner] == epoch)


@helper
def _identify(rows: CopyColumns, index: int, identity: Int64s) -> None:
    identity[0] = rows.base_offset[index]
    identity[1] = rows.last_offset_delta[index]
    identity[2] = rows.producer_id[index]
    identity[3] = rows.producer_epoch[index]
    identity[4] = rows.base_sequence[index]
    identity[5] = rows.partition_leader_epoch[index]
    has_producer = rows.producer_id[index] > NO_PRODUCER_ID
    identity[6] = rows.max_timestamp[index] if has_producer else rows.crc[index]


@helper
def _is_same(identity: Int64s, newest: Int64s) -> bool:
    differences = 0
    for field in range(_FIELDS):
        differences += identity[field] != newest[field]
    return differences == 0


@kernel
def _merge(
    rows: CopyColumns,
    known: _Epochs,
    taken: _Epochs,
    taken_offset: int,
    end_offset: int,
    newest: Int64s,
    identity: Int64s,
    verdicts: Codes,
    gaps: Rows,
) -> tuple[int, int]:
    """(end offset, gaps found)."""
    found = 0
    for index in range(rows.base_offset.size):
        base = rows.base_offset[index]
        last = base + rows.last_offset_delta[index]
        epoch = rows.partition_leader_epoch[index]
        _identify(rows, index, identity)
        if _is_overwritten(epoch, last, known):
            verdicts[index] = DIVERGENT
        elif base >= end_offset:
            if base > end_offset:
                gaps[found].place = index
                gaps[found].first_offset = end_offset
                gaps[found].last_offset = base - 1
                found += 1
            end_offset = last + 1
            _identify(rows, index, newest)
            verdicts[index] = ACCEPTED
        elif last < taken_offset:
            verdicts[index] = OVERLAP if _is_of_leader(epoch, base, taken) else DIVERGENT
        else:
            verdicts[index] = OVERLAP if _is_same(identity, newest) else DIVERGENT
    return end_offset, found


class CopyMerger:
    """Merges the copies of one partition chunk by chunk; the log so far ends at `end_offset`."""

    def __init__(
        self,
        *,
        leader_epochs: Sequence[EpochEntry] = (),
        taken_epochs: Sequence[EpochEntry] = (),
        taken_offset: int = 0,
    ) -> None:
        self._known, self._taken = _epochs_of(leader_epochs), _epochs_of(taken_epochs)
        self._taken_offset, self.end_offset = taken_offset, taken_offset
        self._newest = np.full(_FIELDS, NO_OFFSET, dtype=np.int64)

    def merge(self, rows: CopyColumns) -> tuple[Codes, Rows]:
        """A verdict code per batch, and rows of `GAP`."""
        size = rows.base_offset.size
        verdicts, gaps = np.empty(size, dtype=np.int8), np.empty(size, dtype=GAP)
        self.end_offset, found = _merge(
            rows,
            self._known,
            self._taken,
            self._taken_offset,
            self.end_offset,
            self._newest,
            np.empty(_FIELDS, dtype=np.int64),
            verdicts,
            gaps,
        )
        return verdicts, gaps[:found]


Flags = npt.NDArray[np.bool_]


class SegmentColumns(NamedTuple):
    """The segments of a copy by ascending object order: start, end, and whether offsets may be missing."""

    object_order: Int64s
    start: Int64s
    end: Int64s
    is_dense: Flags


class OrderColumns(NamedTuple):
    """The columns of a copy's rows that are checked."""

    object_order: npt.NDArray[np.int32]
    base_offset: Int64s
    last_offset_delta: npt.NDArray[np.int32]


class MisplacedRows(NamedTuple):
    """Rows by their index, and the range of base offsets that their neighbours leave for them."""

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
    """Checks the order of offsets in consecutive chunks of one copy."""

    def __init__(self, segments: SegmentColumns) -> None:
        self._segments = segments
        self._memory = np.full(4, -1, dtype=np.int64)

    def is_in_order(self, rows: OrderColumns, problem: Flags) -> bool:
        """Whether every row fits; once one does not, the check ends and `find_misplaced` finds out which.

        A missing offset in a segment that can have none does not fit either.
        """
        columns = OrderColumns(
            object_order=read_only(rows.object_order, np.int32),
            base_offset=read_only(rows.base_offset, np.int64),
            last_offset_delta=read_only(rows.last_offset_delta, np.int32),
        )
        return _is_in_order(columns, read_only(problem, np.bool_), self._segments, self._memory)


@kernel
def _lengths(numbers: Int64s, ends: Int64s, lengths: Int64s) -> None:
    """For each number the length of the longest non-decreasing subsequence that ends with it."""
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
    """The misplaced rows of one segment."""
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
    """How many offsets batches take: at least one each, also with an invalid header."""
    return np.maximum(last_offset_delta.astype(np.int64), 0) + 1
