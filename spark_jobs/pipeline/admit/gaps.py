"""Gaps in a broker's log: which holes are gaps, which batches they hold, and the rows of the table `gaps`.

A hole is explained where the broker's log began behind it (retention, DeleteRecords), or where a cleaner was
and no damage was found. Every other hole is a gap. An open gap stays open until a copy has its
offsets: if the broker deletes them later, a copy has still missed them while they were there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kernels.copies import GAP
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.gap_file import HeldFile, KnownGap, PartitionGaps, put_held_rows
from spark_jobs.lake.index_rows import values
from spark_jobs.lake.inherited_rows import (
    STRETCH_OFFSETS,
    InheritedRows,
    index_rows_of,
    inherited_object,
    inherited_of,
)
from spark_jobs.lake.manifest import ManifestEntry
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.tables.admit import GapStatus

MOST_GAPS = 1000
"""Gaps of one partition that are remembered, and listed while they are open; a log with more of them is
compacted, and its topic not declared so."""
EVERYWHERE = int(np.iinfo(np.int64).max)

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Range = tuple[int, int]
"""First and last offset."""


def overlaps(first: Int64s, last: Int64s, gaps: Sequence[KnownGap]) -> Flags:
    """Which of the ranges share an offset with one of the gaps, which are by offset."""
    starts = np.array([gap.first_offset for gap in gaps], dtype=np.int64)
    ends = np.array([gap.last_offset for gap in gaps], dtype=np.int64)
    found: Flags = np.searchsorted(ends, first) < np.searchsorted(starts, last, side="right")
    return found


@dataclass(frozen=True)
class Holes:
    """Separates gaps from holes that are explained.

    Below `cleaned_offset` a cleaner was. `log_start` is called only if there is a hole to explain: below
    it the broker has deleted everything. `known` are the gaps that are open.
    """

    cleaned_offset: int
    log_start: Callable[[], int]
    known: tuple[KnownGap, ...] = ()

    @cached_property
    def _log_start(self) -> int:
        return self.log_start()

    def split(self, holes: Rows, is_damaged: Flags) -> tuple[Rows, Rows]:
        """(deleted, missing): rows of `GAP`, both in the order of `holes`."""
        stays = overlaps(holes["first_offset"], holes["last_offset"], self.known)
        first = np.where(
            stays | is_damaged, holes["first_offset"], np.maximum(holes["first_offset"], self.cleaned_offset)
        )
        left = first <= holes["last_offset"]
        if not left.any():
            return holes[:0], holes[:0]
        holes, first, stays = holes[left], first[left], stays[left]
        start = np.where(stays, first, np.clip(self._log_start, first, holes["last_offset"] + 1))
        deleted, missing = _ranges(holes, first, start - 1), _ranges(holes, start, holes["last_offset"])
        return deleted, missing


def _ranges(holes: Rows, first: Int64s, last: Int64s) -> Rows:
    found = np.empty(len(holes), dtype=GAP)
    found["place"], found["first_offset"], found["last_offset"] = holes["place"], first, last
    return found[first <= last]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow:
    """A row of the table `gaps`, without the partition."""

    first_offset: int
    last_offset: int
    status: GapStatus
    found_on: date
    filled_on: date | None = None
    held_batches: int = 0
    held_records: int = 0
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A gap that this run's merge found; its held batches are counted up to the next one."""

    first_offset: int
    last_offset: int
    before: str
    after: str
    batches: int = 0
    records: int = 0


class ObjectNames:
    """Names of the objects that rows are in, by their order."""

    def __init__(self, entries: Iterable[ManifestEntry]) -> None:
        self.entries = tuple(sorted(entries, key=lambda entry: entry.order))
        self._by_order = {entry.order: f"{entry.source}/{entry.path}" for entry in self.entries}

    def __getitem__(self, order: int) -> str:
        return self._by_order.get(order, "")


class HeldBatches:
    """Batches behind a gap: those of earlier runs are given as rows, those of this run kept for the next."""

    def __init__(self, lake: ObjectStore, known: PartitionGaps, objects: ObjectNames) -> None:
        self._lake, self._known = lake, known
        self._objects = tuple(map(inherited_object, objects.entries))
        self._orders = np.array([entry.order for entry in objects.entries], dtype=np.int64)
        self._pending: list[InheritedRows] = []
        self._files: list[HeldFile] = []

    @property
    def count(self) -> int:
        """Batches that earlier runs have held."""
        return self._known.held_batches

    def rows(self) -> Iterator[pa.RecordBatch]:
        """They as rows of the table `index`, by offset."""
        orders = {
            each: order for each, order in zip(self._objects, self._orders.tolist(), strict=True) if order < 0
        }
        for held in self._known.held_rows(self._lake):
            rows = held.rows.copy()
            rows["object"] = np.array([orders[each] for each in held.objects], dtype=np.int32)[rows["object"]]
            yield index_rows_of(rows)

    def keep(self, rows: pa.RecordBatch) -> None:
        """Held rows, by offset; full stretches are written immediately."""
        if not rows.num_rows:
            return
        kept = inherited_of(rows)
        kept["offset"] = kept["base_offset"]
        kept["object"] = np.searchsorted(self._orders, kept["object"])
        stretch = int(kept["offset"][0]) // STRETCH_OFFSETS
        if self._pending and int(self._pending[-1].rows["offset"][-1]) // STRETCH_OFFSETS != stretch:
            self._flush()
        self._pending.append(InheritedRows(objects=self._objects, rows=kept))

    def finish(self) -> tuple[HeldFile, ...]:
        """The files of all held rows."""
        self._flush()
        return tuple(self._files)

    def _flush(self) -> None:
        self._files += put_held_rows(self._lake, self._pending)
        self._pending = []


class GapKeeper:
    """Collects the gaps of one partition while its chunks come by."""

    def __init__(self, known: PartitionGaps, objects: ObjectNames, *, holds: bool, day: date) -> None:
        self._known, self._objects, self._holds, self._day = known, objects, holds, day
        self._missing: list[_Found] = []
        self._deleted: list[_Found] = []
        self._late: dict[tuple[int, str], None] = {}
        self._last_object = ""
        self.count = 0

    def keep(
        self,
        rows: pa.RecordBatch,
        *,
        deleted: Rows,
        missing: Rows,
        authoritative: Int64s,
        held: Int64s,
        late: Int64s,
    ) -> None:
        """A chunk: its gaps, and the places of rows that are authoritative, held, or late."""
        orders = values(rows, "object_order")
        self._deleted += self._named(deleted, orders, authoritative)
        self._count_held(missing, self._named(missing, orders, authoritative), rows, held)
        self._keep_late(values(rows, "base_offset")[late], orders[late])
        if len(authoritative):
            self._last_object = self._objects[int(orders[authoritative[-1]])]

    def _named(self, gaps: Rows, orders: npt.NDArray[np.int32], authoritative: Int64s) -> list[_Found]:
        before = np.searchsorted(authoritative, gaps["place"]) - 1
        return [
            _Found(
                first_offset=int(gap["first_offset"]),
                last_offset=int(gap["last_offset"]),
                before=self._last_object if place < 0 else self._objects[int(orders[authoritative[place]])],
                after=self._objects[int(orders[gap["place"]])],
            )
            for gap, place in zip(gaps, before.tolist(), strict=True)
        ]

    def _count_held(self, gaps: Rows, found: list[_Found], rows: pa.RecordBatch, held: Int64s) -> None:
        """Each held batch counts for the gap before it; beyond the most that are listed, for the last one."""
        known = len(self._missing)
        self.count += len(gaps)
        self._missing += found[: max(MOST_GAPS - known, 0)] if self._holds else found
        if not len(held) or not self._missing:
            return
        numbers = known - 1 + np.searchsorted(gaps["place"], held, side="right")
        numbers = numbers.clip(0, len(self._missing) - 1)
        records = values(rows, "record_count")[held]
        for number in np.unique(numbers).tolist():
            is_own, gap = numbers == number, self._missing[number]
            self._missing[number] = replace(
                gap,
                batches=gap.batches + int(np.count_nonzero(is_own)),
                records=gap.records + int(records[is_own].clip(0).sum()),
            )

    def _keep_late(self, offsets: Int64s, orders: npt.NDArray[np.int32]) -> None:
        starts = np.array([gap.first_offset for gap in self._known.passed], dtype=np.int64)
        places = np.searchsorted(starts, offsets, side="right") - 1
        for place, order in dict.fromkeys(zip(places.tolist(), orders.tolist(), strict=True)):
            self._late[place, self._objects[order]] = None

    def gaps_after(self, held: tuple[HeldFile, ...]) -> PartitionGaps:
        """The gaps for the next run."""
        deleted = [self._known_gap(each, GapStatus.DELETED) for each in self._deleted]
        passed = sorted((*self._known.passed, *deleted), key=lambda gap: gap.first_offset)
        missing = [self._known_gap(each, self._status) for each in self._missing]
        kept = [*missing[-MOST_GAPS:], *passed[-MOST_GAPS:]]
        return PartitionGaps(gaps=tuple(sorted(kept, key=lambda gap: gap.first_offset)), held=held)

    def rows(self, merged_end: int) -> tuple[GapRow, ...]:
        """The run's rows of the table `gaps`; the merged copies end at `merged_end`."""
        found = [
            *(self._row(each, self._status) for each in self._missing),
            *(self._row(each, GapStatus.DELETED) for each in self._deleted),
            *self._filled(merged_end),
            *self._late_rows(),
        ]
        return tuple(sorted(found, key=lambda row: (row.first_offset, row.status, row.after)))

    @property
    def _status(self) -> GapStatus:
        return GapStatus.OPEN if self._holds else GapStatus.PUBLISHED_PAST

    def _known_gap(self, found: _Found, status: GapStatus) -> KnownGap:
        return KnownGap(
            first_offset=found.first_offset,
            last_offset=found.last_offset,
            status=status,
            found_on=self._found_on(found).isoformat(),
            before=found.before,
            after=found.after,
        )

    def _row(self, found: _Found, status: GapStatus) -> GapRow:
        return GapRow(
            first_offset=found.first_offset,
            last_offset=found.last_offset,
            status=status,
            found_on=self._found_on(found),
            held_batches=found.batches,
            held_records=found.records,
            before=found.before,
            after=found.after,
        )

    def _found_on(self, found: _Found) -> date:
        """When the gap, or the one that it is left of, was found."""
        before = (
            gap.found
            for gap in self._known.open
            if gap.first_offset <= found.last_offset and gap.last_offset >= found.first_offset
        )
        return min(before, default=self._day)

    def _filled(self, merged_end: int) -> Iterator[GapRow]:
        """The parts of gaps that were open and are missing no longer."""
        missing = [(each.first_offset, each.last_offset) for each in self._missing]
        for gap in self._known.open:
            for first, last in without((gap.first_offset, gap.last_offset), missing):
                is_taken = first < merged_end
                yield GapRow(
                    first_offset=first,
                    last_offset=last,
                    status=GapStatus.FILLED if is_taken else GapStatus.TRUNCATED,
                    found_on=gap.found,
                    filled_on=self._day if is_taken else None,
                    before=gap.before,
                    after=gap.after,
                )

    def _late_rows(self) -> Iterator[GapRow]:
        for place, name in self._late:
            gap = self._known.passed[place]
            yield GapRow(
                first_offset=gap.first_offset,
                last_offset=gap.last_offset,
                status=GapStatus.LATE,
                found_on=gap.found,
                before=gap.before,
                after=name,
            )


def without(whole: Range, missing: Iterable[Range]) -> Iterator[Range]:
    """The parts of `whole` that are in none of `missing`, which are by offset."""
    first, end = whole
    for start, last in missing:
        if last < first or start > end:
            continue
        if start > first:
            yield first, start - 1
        first = last + 1
    if first <= end:
        yield first, end
