"""Sequences of written rows as spans: consecutive ones of a producer become one, whatever their number."""

from typing import NamedTuple

import numpy as np

from spark_jobs.auditing.batch_columns import Flags, Int64s
from spark_jobs.kernels.record_rows import OffsetRanges, RecordColumns, RowsSeen

SPANS_AT_A_TIME = 1 << 18
"""Spans that are collected before they are joined, or as many as there are joined ones."""


class Spans(NamedTuple):
    """Rows of one producer and epoch with consecutive sequences, and the offsets of the first and last."""

    producer_id: Int64s
    producer_epoch: Int64s
    first_sequence: Int64s
    last_sequence: Int64s
    first_offset: Int64s
    last_offset: Int64s

    def take(self, rows: Int64s | Flags) -> "Spans":
        return Spans._make(column[rows] for column in self)

    @property
    def offsets(self) -> OffsetRanges:
        return OffsetRanges(self.producer_id, self.first_offset, self.last_offset)


def spans_of(rows: RecordColumns, seen: RowsSeen) -> Spans:
    """The spans that were seen in a part of the table; rows without a producer have no sequence."""
    first, last = seen.first, seen.last
    return Spans(
        rows.producer_id[first],
        rows.producer_epoch[first].astype(np.int64),
        rows.sequence[first].astype(np.int64),
        rows.sequence[last].astype(np.int64),
        rows.offset[first],
        rows.offset[last],
    )


class SequenceSpans:
    """All sequences of one partition: memory is that of its producers and epochs, not of its rows."""

    def __init__(self) -> None:
        self._held: list[Spans] = []
        self._repeated = 0

    def add(self, spans: Spans) -> None:
        self._held.append(spans)
        joined, *others = (each.producer_id.size for each in self._held)
        if sum(others) >= max(SPANS_AT_A_TIME, joined):
            self._join()

    @property
    def repeated(self) -> int:
        """Sequences that came more than once, over all producers and epochs."""
        self._join()
        return self._repeated

    def _join(self) -> None:
        if not self._held:
            return
        spans = Spans._make(np.concatenate(columns) for columns in zip(*self._held, strict=True))
        spans = spans.take(np.lexsort((spans.first_sequence, spans.producer_epoch, spans.producer_id)))
        is_new = (np.diff(spans.producer_id) != 0) | (np.diff(spans.producer_epoch) != 0)
        step = spans.first_sequence[1:] - spans.last_sequence[:-1]
        self._repeated += int((1 - step[~is_new & (step < 1)]).sum())
        first = np.append(0, np.flatnonzero(is_new | (step != 1)) + 1)[: spans.producer_id.size]
        last = np.append(first[1:] - 1, spans.producer_id.size - 1)[: spans.producer_id.size]
        self._held = [spans.take(first)._replace(last_sequence=spans.last_sequence[last])]
