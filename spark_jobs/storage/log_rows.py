"""The index of one copy of a broker's log; batches at impossible offsets are marked as problems.

Nearly always all is well, and one look at each chunk says so. Otherwise the copy's offsets are read once
more, segment by segment, before anything is handed out that they could concern.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kernels.log_order import (
    OrderColumns,
    OrderWatch,
    SegmentColumns,
    count_of,
    find_misplaced,
)
from spark_jobs.protocol.log_order import sentence
from spark_jobs.protocol.record_batch import MAGIC_V2
from spark_jobs.storage.index_files import IndexedCopy
from spark_jobs.storage.index_rows import concatenate, is_problem, iter_index, values
from spark_jobs.storage.log_segments import SegmentPlace
from spark_jobs.storage.object_store import ObjectStore

PLACE_COLUMNS = (*OrderColumns._fields, "problem")
"""What has to be among the columns that are read."""
_READ = [*PLACE_COLUMNS, "magic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Misplaced:
    """Rows by their number in the copy, ascending, and what is wrong with each."""

    numbers: npt.NDArray[np.int64]
    sentences: tuple[str, ...]

    def reported(self, rows: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """The rows, of which the first is number `start`, with those of them among the problems."""
        first, stop = np.searchsorted(self.numbers, (start, start + rows.num_rows)).tolist()
        if first == stop:
            return rows
        problems = rows.column("problem").to_pylist()
        for index in range(first, stop):
            problems[int(self.numbers[index]) - start] = self.sentences[index]
        place = rows.schema.get_field_index("problem")
        return rows.set_column(place, rows.schema.field(place), pa.array(problems, pa.string()))


_NONE = _Misplaced(numbers=np.empty(0, dtype=np.int64), sentences=())


def iter_log(
    lake: ObjectStore, copy: IndexedCopy, *, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a copy of a broker's log in order; memory is that of two chunks.

    Where somebody has captured a topic of Kafka's own, there are no segments that could tell.
    """
    if not copy.segments:
        yield from iter_index(lake, copy.keys, columns=columns)
        return
    watch, is_well, found = OrderWatch(_segment_columns(copy)), True, _NONE
    pending, start = None, 0
    for rows in iter_index(lake, copy.keys, columns=columns):
        if is_well and not watch.is_in_order(_order_columns(rows), is_problem(rows)):
            is_well, found = False, _misplaced(lake, copy)
        if pending is not None:
            # Only now: it is the batch behind that tells.
            yield found.reported(pending, start)
            start += pending.num_rows
        pending = rows
    if pending is not None:
        yield found.reported(pending, start)


def _segment_columns(copy: IndexedCopy) -> SegmentColumns:
    ordered = sorted(copy.segments, key=lambda segment: segment.object_order)
    return SegmentColumns._make(
        np.array([getattr(segment, name) for segment in ordered]) for name in SegmentColumns._fields
    )


def _order_columns(rows: pa.RecordBatch) -> OrderColumns:
    return OrderColumns._make(values(rows, name) for name in OrderColumns._fields)


def _misplaced(lake: ObjectStore, copy: IndexedCopy) -> _Misplaced:
    """All of the copy; memory is that of the largest segment's offsets."""
    places = {segment.object_order: segment for segment in copy.segments}
    numbers: list[int] = []
    sentences: list[str] = []
    start = 0
    for rows in _by_segment(iter_index(lake, copy.keys, columns=_READ)):
        segment = places[int(values(rows, "object_order")[0])]
        for place, text in _misplaced_in(rows, segment):
            numbers.append(start + place)
            sentences.append(text)
        start += rows.num_rows
    return _Misplaced(numbers=np.array(numbers, dtype=np.int64), sentences=tuple(sentences))


def _by_segment(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, those of one object together."""
    held: list[pa.RecordBatch] = []
    for rows in chunks:
        changes = np.flatnonzero(np.diff(values(rows, "object_order"))) + 1
        for first, stop in zip([0, *changes.tolist()], [*changes.tolist(), rows.num_rows], strict=True):
            part = rows.slice(first, stop - first)
            if held and values(held[-1], "object_order")[0] != values(part, "object_order")[0]:
                yield concatenate(held)
                held = []
            held.append(part)
    if held:
        yield concatenate(held)


def _misplaced_in(rows: pa.RecordBatch, segment: SegmentPlace) -> Iterator[tuple[int, str]]:
    """Places in `rows`, which are all of a segment, and what is wrong there."""
    good = ~is_problem(rows)
    base_offset, count = values(rows, "base_offset")[good], count_of(values(rows, "last_offset_delta")[good])
    is_exact = bool(good.all()) and int(values(rows, "magic").min()) >= MAGIC_V2
    end = segment.start + int(count.sum()) if segment.is_dense and is_exact else segment.end
    found = find_misplaced(base_offset, count, start=segment.start, end=end)
    places = np.flatnonzero(good)[found.place].tolist()
    claimed = base_offset[found.place].tolist()
    for place, offset, earliest, latest in zip(
        places, claimed, found.earliest.tolist(), found.latest.tolist(), strict=True
    ):
        yield place, sentence(base_offset=offset, earliest=earliest, latest=latest)
