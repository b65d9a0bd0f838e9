"""The index of a run: its files by partition and copy, its rows in chunks, and misplaced batches of a log."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.log_files import MAX_OFFSET, parse_file_name
from spark_jobs.kafka.formats.record_batch import MAGIC_V2
from spark_jobs.kafka.formats.tier_files import parse_tier_name
from spark_jobs.kafka.log.log_order import OFFSETS_PER_SEGMENT, sentence
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.admission import BatchColumns, batch_columns
from spark_jobs.kernels.columns import NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH, HeaderColumns
from spark_jobs.kernels.copies import OrderColumns, OrderWatch, SegmentColumns, count_of, find_misplaced
from spark_jobs.kernels.scan import find_intact
from spark_jobs.lake.errors import ObjectChanged
from spark_jobs.lake.manifest import ManifestEntry, ObjectRole
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_rows, read_table
from spark_jobs.lake.run_folder import RunFolder
from spark_jobs.tables.index import INDEX_FILES

Labels: TypeAlias = "pa.DictionaryArray[Any, Any]"
FEWEST_ROWS = 1 << 15
"""Rows of a chunk, except for the last one: each chunk has a fixed cost."""
_INSTEAD_OF_NULL = {"control_type": NO_CONTROL_TYPE, "coordinator_epoch": NO_COORDINATOR_EPOCH}


def iter_index(
    lake: ObjectStore, keys: Iterable[str], *, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of several index files in order, small files combined; memory is that of a chunk."""
    held: list[pa.RecordBatch] = []
    for key in keys:
        for rows in iter_rows(lake, key, columns=columns):
            held.append(rows)
            if sum(part.num_rows for part in held) >= FEWEST_ROWS:
                yield concatenate(held)
                held = []
    if held:
        yield concatenate(held)


def values(rows: pa.RecordBatch, name: str) -> npt.NDArray[Any]:
    """A column of numbers; nulls are replaced by the value that kernels use for "none"."""
    column = rows.column(name)
    if column.null_count:
        column = column.fill_null(_INSTEAD_OF_NULL[name])
    return column.to_numpy(zero_copy_only=False)


def is_problem(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which rows describe a problem instead of a batch."""
    found: npt.NDArray[np.bool_] = rows.column("problem").is_valid().to_numpy(zero_copy_only=False)
    return found


def batches_of(rows: pa.RecordBatch) -> BatchColumns:
    """The columns that the admission rules use."""
    return batch_columns(values(rows, name) for name in BatchColumns._fields)


def check_indexed(data: bytes, headers: HeaderColumns, name_of: Callable[[int], str]) -> None:
    """Raises `ObjectChanged` unless `data` has the batches of these rows of the index at their positions.

    `name_of` gives the name of a row's object.
    """
    changed = np.flatnonzero(~find_intact(data, headers))
    if changed.size:
        raise ObjectChanged(f"{name_of(int(changed[0]))}: its batches are not those that were indexed")


def concatenate(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of `parts`, at least one, in order."""
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def take(rows: pa.RecordBatch, places: npt.NDArray[np.signedinteger[Any]]) -> pa.RecordBatch:
    """The rows at `places`, in their order."""
    taken: pa.RecordBatch = rows.take(pa.array(places, pa.int64()))
    return taken


def chosen(rows: pa.RecordBatch, wanted: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows that are `wanted`."""
    return rows.filter(pa.array(wanted, pa.bool_()))


def labels(codes: npt.NDArray[np.signedinteger[Any]], names: Sequence[str]) -> Labels:
    """The text `names[code]` for each code; equal names are one label."""
    known = list(dict.fromkeys(names))
    places = np.array([known.index(name) for name in names], dtype=np.int32)
    return pa.DictionaryArray.from_arrays(places[codes], known)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlace:
    """A segment: all its offsets should be in `start` to `end` (excluded).

    `is_dense` if its topic is not compacted and no segment follows: then none of its offsets is missing, and
    its batches determine where it ends.
    """

    object_order: int
    start: int
    end: int
    is_dense: bool = False


def segment_places(entries: Iterable[ManifestEntry], *, is_compacted: bool) -> tuple[SegmentPlace, ...]:
    """The segments of one copy; one that is not read from its beginning starts at its `next_offset`.

    The cleaner's checkpoint does not show where a compacted log has holes: a replica that was added later
    has the holes of the leader that it fetched from.
    """
    named = sorted(((base_offset_of(entry), entry) for entry in entries), key=lambda each: each[0])
    following = [*(start for start, _ in named), MAX_OFFSET][1:]
    return tuple(
        SegmentPlace(
            object_order=entry.order,
            start=max(start, entry.next_offset),
            end=min(after, start + OFFSETS_PER_SEGMENT),
            is_dense=after == MAX_OFFSET and entry.role is ObjectRole.LOG and not is_compacted,
        )
        for (start, entry), after in zip(named, following, strict=True)
    )


def base_offset_of(entry: ManifestEntry) -> int:
    """The offset in the name of a segment."""
    file = parse_file_name(entry.name) or parse_tier_name(entry.name)
    return 0 if file is None else file.offset


def first_segments(entries: Iterable[ManifestEntry]) -> dict[tuple[str, str], int]:
    """Where the first segment of each copy begins, by source and directory."""
    found: dict[tuple[str, str], int] = {}
    for entry in entries:
        if entry.role is ObjectRole.LOG:
            place, offset = (entry.source, entry.directory), base_offset_of(entry)
            found[place] = min(found.get(place, offset), offset)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedCopy:
    """One copy of a partition's log: keys of its index files in arrival order, and the total of their rows.

    `segments` are those of a broker's log; a capture has none.
    """

    partition: TopicPartition
    number: int
    source: str
    directory: str
    keys: tuple[str, ...]
    rows: int
    segments: tuple[SegmentPlace, ...] = ()


def read_index_files(folder: RunFolder) -> dict[TopicPartition, tuple[IndexedCopy, ...]]:
    """The copies of every partition that the run has objects of."""
    rows = read_table(folder.lake, folder.key(Step.INDEX, INDEX_FILES.file)).to_pylist()
    copies = _copies(folder, rows)
    return {partition: tuple(same) for partition, same in groupby(copies, lambda copy: copy.partition)}


def _copies(folder: RunFolder, rows: list[dict[str, Any]]) -> Iterator[IndexedCopy]:
    """The rows come in order of partition, copy and arrival."""
    for (topic, partition, number), files in groupby(
        rows, lambda row: (row["topic"], row["partition"], row["copy"])
    ):
        listed = list(files)
        yield IndexedCopy(
            partition=TopicPartition(topic, partition),
            number=number,
            source=listed[0]["source"],
            directory=listed[0]["directory"],
            keys=tuple(folder.key(Step.INDEX, row["file"]) for row in listed),
            rows=sum(row["rows"] for row in listed),
        )


PLACE_COLUMNS = (*OrderColumns._fields, "problem")
"""Columns that `iter_log` needs among the columns that are read."""
_READ = [*PLACE_COLUMNS, "magic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Misplaced:
    """Misplaced rows by their number in the copy, ascending, with a sentence for each."""

    numbers: npt.NDArray[np.int64]
    sentences: tuple[str, ...]

    def reported(self, rows: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """`rows`, the first of which has the number `start`, with the misplaced ones marked as problems."""
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
    """The rows of a copy in order, batches at impossible offsets as problems; memory is that of two chunks.

    A capture, also of an internal topic, has no segments, so its offsets are not checked.
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
            # One chunk late: only the next batch shows that one before it is misplaced.
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
    """All misplaced rows of the copy; memory is that of the largest segment's offsets."""
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
    """The same rows, one chunk for each object."""
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
    """The misplaced ones among `rows`, all rows of a segment: index and sentence."""
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
