"""Checks of the rows of a topic's table: order of offsets, timestamps, and spans of sequences."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP
from spark_jobs.kernels.compile import helper, kernel

_LEAST, _MOST = -(2**63), 2**63 - 1
"""Largest microseconds of a column; bounds beyond it have no effect."""

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class RecordColumns(NamedTuple):
    """Rows of a topic's table, in its order; `timestamp` in microseconds since 1970, -1 for none."""

    partition: Int32s
    offset: Int64s
    timestamp: Int64s
    producer_id: Int64s
    producer_epoch: Int32s
    sequence: Int32s

    def part(self, start: int, stop: int) -> "RecordColumns":
        return RecordColumns._make(column[start:stop] for column in self)


class RowsSeen(NamedTuple):
    """The findings of the checks; a span is from the row in `first` to the one in `last`."""

    disordered: int
    highest: int
    strange: int
    first: Int64s
    last: Int64s


class OffsetRanges(NamedTuple):
    """From first to last offset, each of one producer."""

    producer_id: Int64s
    first_offset: Int64s
    last_offset: Int64s


@helper
def _count_disordered(offset: Int64s, highest: int) -> tuple[int, int]:
    """(rows whose offset does not increase, the highest offset)."""
    disordered = 1 if offset[0] <= highest else 0
    highest = max(highest, offset[0])
    for row in range(1, offset.size):
        if offset[row] <= offset[row - 1]:
            disordered += 1
        highest = max(highest, offset[row])
    return disordered, highest


@helper
def _count_strange(timestamp: Int64s, earliest: int, latest: int) -> int:
    """Timestamps out of bounds; Kafka allows a record to have none."""
    strange = 0
    for row in range(timestamp.size):
        at = timestamp[row]
        if (at < earliest or at > latest) and at != NO_TIMESTAMP:
            strange += 1
    return strange


@helper
def _find_spans(rows: RecordColumns, first: Int64s, last: Int64s) -> int:
    """Number of spans: rows of one producer and epoch, with consecutive sequences that do not wrap.

    Span `i` is from row `first[i]` to row `last[i + 1]`. Rows without a producer are in no span, and end
    none.
    """
    producer_id, producer_epoch, sequence = rows.producer_id, rows.producer_epoch, rows.sequence
    spans, before = 0, -1
    for row in range(producer_id.size):
        if producer_id[row] < 0:
            continue
        if (
            before < 0
            or sequence[row] != sequence[before] + 1
            or producer_id[row] != producer_id[before]
            or producer_epoch[row] != producer_epoch[before]
        ):
            first[spans], last[spans] = row, before
            spans += 1
        before = row
    last[spans] = before
    return spans


@kernel
def _look_at(
    rows: RecordColumns, highest: int, earliest: int, latest: int, first: Int64s, last: Int64s
) -> tuple[int, int, int, int]:
    """One kernel, because each costs a new process some milliseconds to load."""
    disordered, highest = _count_disordered(rows.offset, highest)
    strange = _count_strange(rows.timestamp, earliest, latest)
    return disordered, highest, strange, _find_spans(rows, first, last)


def look_at(rows: RecordColumns, highest: int, *, earliest_ms: int, latest_ms: int) -> RowsSeen:
    """Checks one or more rows of one partition, whose earlier rows have offsets up to `highest`."""
    first, last = np.empty((2, rows.offset.size + 1), dtype=np.int64)
    earliest, latest = (max(_LEAST, min(ms * 1000, _MOST)) for ms in (earliest_ms, latest_ms))
    disordered, highest, strange, spans = _look_at(rows, highest, earliest, latest, first, last)
    return RowsSeen(disordered, highest, strange, first[:spans], last[1 : spans + 1])


@helper
def _last_begun(transactions: OffsetRanges, producer_id: int, offset: int) -> int:
    """The last transaction, by producer and first offset, that does not begin later; -1 for none."""
    low, high = 0, transactions.producer_id.size
    while low < high:
        middle = (low + high) // 2
        found = transactions.producer_id[middle]
        if found < producer_id or (found == producer_id and transactions.first_offset[middle] <= offset):
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel
def count_within(spans: OffsetRanges, transactions: OffsetRanges) -> int:
    """Offsets of `spans` that are in `transactions`, which are sorted by producer and first offset.

    The transactions of a producer do not overlap, so only the last one that begins before a span ends can
    contain it.
    """
    total = 0
    for row in range(spans.producer_id.size):
        at = _last_begun(transactions, spans.producer_id[row], spans.last_offset[row])
        if at >= 0 and transactions.producer_id[at] == spans.producer_id[row]:
            first = max(transactions.first_offset[at], spans.first_offset[row])
            last = min(transactions.last_offset[at], spans.last_offset[row])
            total += max(last - first + 1, 0)
    return total
