"""Checks of sequences: each producer continues its sequence, and starts from 0 in a new epoch."""

from typing import NamedTuple

import numpy as np

from spark_jobs.kafka.formats.record_batch import NO_PRODUCER_EPOCH, NO_SEQUENCE
from spark_jobs.kafka.producers.sequence import MAX_SEQUENCE
from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.record_rows import OffsetRanges, RecordColumns, RowsSeen
from spark_jobs.pipeline.audit.columns import AcceptedBatches, Flags, Int64s

NEVER = int(np.iinfo(np.int64).min)


class _Ends(NamedTuple):
    """The newest batch of each producer, by ascending id; sequence and offset are -1 before the first."""

    producer_id: Int64s
    producer_epoch: Int64s
    last_sequence: Int64s
    last_offset: Int64s
    last_timestamp: Int64s

    def take(self, rows: Int64s) -> "_Ends":
        return _Ends._make(column[rows] for column in self)

    def followed_by(self, newer: "_Ends") -> "_Ends":
        """The newest of both of each producer; those that are known are changed in place.

        `newer` are by ascending id, the newest of each last.
        """
        newest = newer.take(np.flatnonzero(_is_last(newer.producer_id)))
        place, is_known = self.find(newest.producer_id)
        for column, values in zip(self, newest, strict=True):
            column[place[is_known]] = values[is_known]
        if is_known.all():
            return self
        both = _Ends._make(
            np.concatenate((mine, theirs[~is_known])) for mine, theirs in zip(self, newest, strict=True)
        )
        return both.take(np.argsort(both.producer_id))

    def find(self, producer_id: Int64s) -> tuple[Int64s, Flags]:
        """The place of each among the known ids, and whether it is known."""
        place = np.searchsorted(self.producer_id, producer_id)
        is_known: Flags = np.append(self.producer_id, -1)[place] == producer_id
        return place, is_known


class AcceptedSequences:
    """Follows the producers of one partition from their state at the start of the run."""

    def __init__(
        self, producers: Rows, gaps: Int64s, *, expired_before: int = NEVER, cleaned_offset: int = 0
    ) -> None:
        """`producers` are canonical rows of `PRODUCER`; `gaps` first and last offsets that are missing.

        A broker may have expired producers that sent nothing newer than `expired_before`, in ms since
        1970; an expired producer may begin at any sequence (facts §2.7, §2.10). Below `cleaned_offset` a
        cleaner may have removed batches.
        """
        self._ends, self._expired_before = _ends_of(producers), expired_before
        self._cleaned = cleaned_offset
        self._gap_starts = np.sort(gaps[:, 0])
        self.broken = 0

    def add(self, rows: AcceptedBatches) -> None:
        """Accepted batches in the order of the table; a gap in the log excuses one in the sequence."""
        counted = rows.take(rows.is_data & (rows.producer_id >= 0) & (rows.base_sequence >= 0))
        if not counted.offset.size:
            return
        order = np.argsort(counted.producer_id, kind="stable")
        rows = AcceptedBatches._make(column[order] for column in counted)
        ends = _Ends(
            rows.producer_id,
            rows.producer_epoch,
            (rows.base_sequence + rows.last_offset_delta) % (MAX_SEQUENCE + 1),
            rows.last_offset,
            rows.max_timestamp,
        )
        before = self._before(ends)
        broken = ~_continues(before, rows) & (before.last_timestamp >= self._expired_before)
        broken[broken] = ~self._is_excused(before.last_offset[broken], rows.offset[broken])
        self.broken += int(np.count_nonzero(broken))
        self._ends = self._ends.followed_by(ends)

    def _before(self, ends: _Ends) -> _Ends:
        """For each batch, sorted by producer, what its producer had sent before."""
        before = _Ends._make(np.roll(column, 1) for column in ends)
        first = np.flatnonzero(_is_first(ends.producer_id))
        known = self._ends
        place, found = known.find(ends.producer_id[first])
        for column, values in zip(before[1:], known[1:], strict=True):
            column[first] = np.where(found, np.append(values, -1)[place], -1)
        return before

    def _is_excused(self, last_offset: Int64s, offset: Int64s) -> Flags:
        between = np.searchsorted(self._gap_starts, (last_offset, offset), side="right")
        was_cleaned = (last_offset < self._cleaned) & (self._cleaned > 0)
        excused: Flags = (between[0] < between[1]) | was_cleaned
        return excused


def _continues(before: _Ends, rows: AcceptedBatches) -> Flags:
    """Which batches continue the sequence; an unknown producer may begin anywhere (facts §2.7)."""
    is_unknown = before.producer_epoch == NO_PRODUCER_EPOCH
    expected = np.where(
        before.producer_epoch == rows.producer_epoch, (before.last_sequence + 1) % (MAX_SEQUENCE + 1), 0
    )
    continues: Flags = is_unknown | (rows.base_sequence == expected)
    return continues


def _ends_of(producers: Rows) -> _Ends:
    count = producers["batches"].astype(np.int64)
    newest = np.maximum(count - 1, 0)
    row = np.arange(len(producers))
    return _Ends(
        producers["producer_id"].astype(np.int64),
        producers["producer_epoch"].astype(np.int64),
        np.where(count > 0, producers["last_sequence"][row, newest], NO_SEQUENCE).astype(np.int64),
        np.where(count > 0, producers["last_offset"][row, newest], -1).astype(np.int64),
        producers["last_timestamp"].astype(np.int64),
    )


def _is_first(ids: Int64s) -> Flags:
    """Where sorted `ids` change."""
    return np.append(True, np.diff(ids) != 0)[: ids.size]


def _is_last(ids: Int64s) -> Flags:
    return np.append(np.diff(ids) != 0, True)[: ids.size]


# Sequences of written rows, as spans of consecutive ones.

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
