"""What a Spark task of `index` does: it writes an index file for each bin and returns summaries."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.config.settings import S3Settings
from spark_jobs.kafka.formats.record_batch import (
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAGIC_V2,
    RecordBatchHeader,
    read_header,
)
from spark_jobs.kafka.log.segment import looks_like_batch
from spark_jobs.kernels.columns import NO_CONTROL_TYPE, HeaderColumns, allocate, concatenate
from spark_jobs.kernels.scan import scan_chunk
from spark_jobs.lake.file_store import can_map
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import ParquetOutput
from spark_jobs.lake.staged_headers import read_headers
from spark_jobs.lake.stores import open_store
from spark_jobs.pipeline.index.job import Bin, BinSummary, Example, Piece
from spark_jobs.pipeline.index.walk import (
    Damage,
    ReadWindow,
    StagedBytes,
    Stretch,
    Unreadable,
    ViewRange,
    WalkLimits,
    walk,
)
from spark_jobs.tables.index import INDEX, PARQUET_OPTIONS

# Rows of the table `index`.

Counts = npt.NDArray[np.int32]
NOT_A_BATCH = -1
"""In the header columns of a stretch without a header."""


class RowBuffer:
    """Rows of one index file before they are written, in arrival order."""

    def __init__(self) -> None:
        self._parts: list[HeaderColumns] = []
        self._orders: list[Counts] = []
        self._without_key: list[Counts] = []
        self._reasons: dict[int, str] = {}
        self.rows = 0

    def add(self, object_order: int, stretch: Stretch) -> None:
        """The batches of `stretch`, which is in the object of that order."""
        positions = stretch.columns.position
        for damage in stretch.damaged:
            self._reasons[self.rows + int(np.searchsorted(positions, damage.position))] = damage.reason
        self._append(object_order, stretch.columns, stretch.records_without_key)

    def add_damage(self, object_order: int, damage: Damage) -> None:
        """One row for a stretch that is no batch."""
        self._reasons[self.rows] = damage.reason
        self._append(object_order, _damage_row(damage), None)

    def take(self, rows: int | None = None) -> pa.Table:
        """The first buffered `rows`, or all, at least one, as a table of `index`; the others stay."""
        columns = concatenate(self._parts)
        orders, without_key = np.concatenate(self._orders), np.concatenate(self._without_key)
        count = self.rows if rows is None else min(rows, self.rows)
        table = _table(columns.part(0, count), orders[:count], self._problems(count), without_key[:count])
        self.rows -= count
        self._parts = [columns.part(count, columns.rows)] if self.rows else []
        self._orders, self._without_key = [orders[count:]], [without_key[count:]]
        self._reasons = {row - count: text for row, text in self._reasons.items() if row >= count}
        return table

    def _append(self, object_order: int, columns: HeaderColumns, without_key: Counts | None) -> None:
        if columns.rows:
            self._parts.append(columns)
            self._orders.append(np.full(columns.rows, object_order, dtype=np.int32))
            none = np.zeros(columns.rows, dtype=np.int32)
            self._without_key.append(none if without_key is None else without_key)
            self.rows += columns.rows

    def _problems(self, rows: int) -> pa.StringArray:
        if not self._reasons:
            return pa.nulls(rows, pa.string())
        return pa.array((self._reasons.get(row) for row in range(rows)), pa.string(), size=rows)


def _table(columns: HeaderColumns, orders: Counts, problems: pa.StringArray, without_key: Counts) -> pa.Table:
    no_control = columns.control_type == NO_CONTROL_TYPE
    arrays = {
        **columns._asdict(),
        "object_order": orders,
        "control_type": pa.array(columns.control_type, mask=no_control),
        "coordinator_epoch": pa.array(columns.coordinator_epoch, mask=no_control),
        "problem": problems,
        "records_without_key": without_key,
    }
    return INDEX.cast(pa.table({name: arrays[name] for name in INDEX.schema.names}))


def _damage_row(damage: Damage) -> HeaderColumns:
    row = allocate(1)
    for column in row:
        column[0] = NOT_A_BATCH if column.dtype.kind == "i" else 0
    row.position[0], row.size[0] = damage.position, damage.size
    row.control_type[0] = NO_CONTROL_TYPE
    return row


# An index file.

ROWS_PER_GROUP = 1 << 17
"""Rows of a row group, about 12 MB: however many came at a time, so that files depend on the rows alone."""
MOST_EXAMPLES = 3


class RowOutput(Protocol):
    """Where rows go, group by group."""

    def write(self, table: pa.Table) -> None:
        """Append the rows of `table`."""

    def prune(self) -> None:
        """Drop everything that was written so far."""


class IndexFile:
    """Collects rows in arrival order into `output`."""

    def __init__(self, output: RowOutput) -> None:
        self._output = output
        self.restart()

    def restart(self) -> None:
        """Drops every row."""
        self._output.prune()
        self._buffer = RowBuffer()
        self.rows = self.problems = 0
        self.examples: tuple[Example, ...] = ()

    def add(self, object_order: int, stretch: Stretch) -> None:
        """The rows of `stretch`, which is in the object of that order."""
        self._buffer.add(object_order, stretch)
        self.rows += stretch.columns.rows
        self._count(object_order, *stretch.damaged)
        if stretch.damage is not None:
            self.add_damage(object_order, stretch.damage)
        while self._buffer.rows >= ROWS_PER_GROUP:
            self._output.write(self._buffer.take(ROWS_PER_GROUP))

    def add_damage(self, object_order: int, damage: Damage) -> None:
        """One row for bytes that are not a valid batch."""
        self._buffer.add_damage(object_order, damage)
        self.rows += 1
        self._count(object_order, damage)

    def flush(self) -> None:
        """Write what is still held."""
        if self._buffer.rows:
            self._output.write(self._buffer.take())

    def _count(self, object_order: int, *damages: Damage) -> None:
        self.problems += len(damages)
        reported = (Example(object_order=object_order, damage=damage) for damage in damages[:MOST_EXAMPLES])
        self.examples = (*self.examples, *reported)[:MOST_EXAMPLES]


# The search for a batch in the middle of an object; the driver checks the guess against the range before.

SEARCH_BYTES = 2**18
"""Searched at a time: a boundary is usually near, and the walk reads the bytes again."""
KNOWN_BITS = 7
"""Attributes that mean something (facts §1.3); text in their place has others."""
EFFORT = 4
"""How many times the bytes of its range a worker may spend on guesses that turn out wrong."""


class Searcher:
    """Searches for boundaries in one range, with a bounded effort."""

    def __init__(self, staged: StagedBytes, *, start: int, stop: int, limits: WalkLimits) -> None:
        self._window, self._stop, self._limits = ReadWindow(staged=staged, start=start), stop, limits
        self._effort = EFFORT * (stop - start)

    def next_boundary(self, position: int) -> int | None:
        """The first position from `position` on where a batch seems to begin; None if none shows itself."""
        while position < self._stop and self._effort > 0:
            beyond = min(position + SEARCH_BYTES, self._stop)
            self._window = self._window.move(position, min(beyond + HEADER_SIZE, self._window.staged.size))
            found = next(filter(self._is_convincing, self._candidates(beyond)), None)
            if found is not None:
                return found
            position = beyond
        return None

    def _candidates(self, beyond: int) -> Iterator[int]:
        """Positions before `beyond` whose magic byte and length could be those of a batch."""
        data = np.frombuffer(self._window.data, dtype=np.uint8)
        places = np.flatnonzero(data[MAGIC_OFFSET : data.size - HEADER_SIZE + MAGIC_OFFSET + 1] == MAGIC_V2)
        sizes = _sizes(data, places)
        largest = np.minimum(self._limits.max_batch_bytes, self._room() - places)
        for place in places[(sizes >= HEADER_SIZE) & (sizes <= largest)]:
            if self._effort > 0 and self._window.start + place < beyond:
                yield self._window.start + int(place)

    def _room(self) -> int:
        return self._window.staged.size - self._window.start

    def _is_convincing(self, position: int) -> bool:
        head = self._window.look(position, HEADER_SIZE)
        if not _is_usual(head):
            return False
        size = read_header(head).size
        after = position + size  # checked first: it costs a few bytes, a checksum all of them
        if after < self._window.staged.size and not _is_usual(self._window.look(after, HEADER_SIZE)):
            return False
        self._effort -= size
        return bool(scan_chunk(self._window.look(position, size), capacity=1).columns.rows)


def _is_usual(head: bytes) -> bool:
    """Whether it is like a batch as Kafka writes it; a broker would accept others, too."""
    if not looks_like_batch(head) or head[MAGIC_OFFSET] != MAGIC_V2:
        return False
    header = read_header(head)
    return header.attributes >> KNOWN_BITS == 0 and header.record_count <= header.last_offset_delta + 1


def _sizes(data: npt.NDArray[np.uint8], places: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """The size that a header at each place would claim; a negative length makes a small one."""
    length = np.zeros(places.size, dtype=np.int64)
    for byte in range(LENGTH_OFFSET, LOG_OVERHEAD):
        length = length << 8 | data[places + byte]
    return length.astype(np.int32) + np.int64(LOG_OVERHEAD)


# The rows of one piece: from its boundary if that is known, else from the best guess.


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Rows cover the object from `first` to `end`; from `lost_at`, if any, the walk found no batch."""

    first: int | None
    end: int
    lost_at: int | None = None


_NOTHING = Extent(first=None, end=0)

HEADER_FIELDS = tuple(each.name for each in fields(RecordBatchHeader) if each.name != "batch_length")
KnownHeaders = Callable[[int, int], Iterator[HeaderColumns]]
"""(start, stop) → headers that `stage` has written of the batches that begin there, the first at `start`."""


def no_headers(start: int, stop: int) -> Iterator[HeaderColumns]:
    """Of an object that was not read by `stage`."""
    del start, stop
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedObject:
    """An object's bytes, and what is known of its batches without reading them."""

    staged: StagedBytes
    limits: WalkLimits
    headers: KnownHeaders = no_headers

    def stretches(self, start: int, stop: int) -> Iterator[Stretch]:
        """Every batch that begins in `start`..`stop`: from known headers, and from bytes behind the last one.

        The walk's rows depend on bytes alone, so they are the same wherever the headers end.
        """
        for stretch in self._known(start, stop):
            yield stretch
            start = stretch.end
        yield from walk(self.staged, start=start, stop=stop, limits=self.limits)

    def _known(self, start: int, stop: int) -> Iterator[Stretch]:
        if self.limits.max_batch_bytes < self.limits.window_bytes:
            return  # the row of a batch that is too large depends on whether it fits into a window
        is_first = True
        for found in self.headers(start, stop):
            if is_first and not self._begins_with(found):
                return
            is_first, large = False, np.flatnonzero(found.size > self.limits.max_batch_bytes)
            rows = found.part(0, int(large[0])) if large.size else found
            if rows.rows:
                yield Stretch(columns=rows, damaged=(), damage=None, end=rows.scanned_bytes)
            if large.size:
                return

    def _begins_with(self, headers: HeaderColumns) -> bool:
        """Whether the object has the first of `headers`; the read fails if it is not the staged object."""
        position = int(headers.position[0])
        head = read_header(self.staged.read(position, position + HEADER_SIZE))
        same = [getattr(head, name) == getattr(headers, name)[0] for name in HEADER_FIELDS]
        return head.size == headers.size[0] and all(same)


def scan_piece(each: IndexedObject, piece: Piece, file: IndexFile) -> Extent:
    """Adds the rows of `piece` to `file`, which holds nothing else if the boundary has to be guessed."""
    if piece.boundary is not None:
        return _scan_from(each, piece, piece.boundary, file)
    try:
        return _scan_from_guess(each, piece, file)
    except Unreadable:
        return _NOTHING  # the piece before reports it


def _scan_from(each: IndexedObject, piece: Piece, boundary: int, file: IndexFile) -> Extent:
    """From where an object cannot be read, the rest is one damaged row, as after bytes that are no batch."""
    end, size = boundary, each.staged.size
    try:
        for stretch in each.stretches(boundary, piece.stop):
            file.add(piece.object_order, stretch)
            end = stretch.end
            if stretch.damage is not None and stretch.damage.lost:
                return Extent(first=boundary, end=end, lost_at=stretch.damage.position)
    except Unreadable as error:
        rest = Damage(position=end, size=size - end, reason=str(error), lost=True)
        file.add_damage(piece.object_order, rest)
        return Extent(first=boundary, end=size, lost_at=end)
    return Extent(first=boundary, end=end)


def _scan_from_guess(each: IndexedObject, piece: Piece, file: IndexFile) -> Extent:
    """A walk that finds no further batch may have begun inside a record; so a later guess is tried.

    Known headers do not replace the guess: a part's file is named by it.
    """
    searcher = Searcher(each.staged, start=piece.start, stop=piece.stop, limits=each.limits)
    extent = _NOTHING
    boundary = searcher.next_boundary(piece.start)
    while boundary is not None:
        file.restart()
        extent = _scan_from(each, piece, boundary, file)
        boundary = None if extent.lost_at is None else searcher.next_boundary(extent.lost_at + 1)
    return extent


# The task.

MAPPED_BYTES = 16 * 2**20
"""Bytes of a window where the system maps files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTask:
    """Some bins for one worker; `folder` is the key of the step's folder, `headers` that of the headers."""

    bins: tuple[Bin, ...]
    lake: ObjectStore
    folder: str
    headers: str
    s3: S3Settings
    limits: WalkLimits


def index_bins(task: IndexTask) -> tuple[BinSummary, ...]:
    """Writes one file per bin; the same task again writes the same bytes."""
    return tuple(_index_bin(task, each) for each in task.bins)


def _index_bin(task: IndexTask, each: Bin) -> BinSummary:
    mapped = MappedBytes()
    with ParquetOutput(task.lake, INDEX.schema, PARQUET_OPTIONS) as output:
        file = IndexFile(output)
        extents = [_index_piece(task, piece, file, mapped) for piece in each.pieces]
        file.flush()
        return BinSummary(
            first=extents[0].first,
            end=extents[-1].end,
            rows=file.rows,
            problems=file.problems,
            examples=file.examples,
            output=output.finish(task.folder, each.file),
            mapped=mapped.count,
        )


class MappedBytes:
    """Counts bytes that were mapped: the system does not count them as read."""

    def __init__(self) -> None:
        self.count = 0

    def counted(self, view_range: ViewRange) -> ViewRange:
        """The same, counted."""

        @contextmanager
        def counted(start: int, length: int) -> Iterator[bytes | memoryview]:
            with view_range(start, length) as data:
                self.count += len(data) if isinstance(data, memoryview) else 0
                yield data

        return counted


def _index_piece(task: IndexTask, piece: Piece, file: IndexFile, mapped: MappedBytes) -> Extent:
    store = _store(piece.store, task.s3)
    is_here = store.local_path(piece.key) is not None
    view_range = mapped.counted(partial(store.viewed, piece.key, version=piece.version))
    staged = StagedBytes(
        size=piece.size,
        read_range=partial(store.read_range, piece.key, version=piece.version),
        view_range=view_range if is_here else None,
    )
    limits = _limits(task, is_here=is_here)
    if not piece.counts_keys:
        limits = replace(limits, record_limits=None)
    return scan_piece(IndexedObject(staged=staged, limits=limits, headers=_headers(task, piece)), piece, file)


def _headers(task: IndexTask, piece: Piece) -> KnownHeaders:
    if not piece.sha256:
        return no_headers
    return lambda start, stop: read_headers(
        task.lake, task.headers, sha256=piece.sha256, size=piece.size, start=start, stop=stop
    )


def _limits(task: IndexTask, *, is_here: bool) -> WalkLimits:
    """Larger windows for S3, since each one is a request, and for mapped files, which need no memory."""
    if is_here:
        return replace(task.limits, window_bytes=MAPPED_BYTES) if can_map() else task.limits
    return replace(task.limits, window_bytes=task.s3.part_bytes)


@cache
def _store(url: str, s3: S3Settings) -> ObjectStore:
    """One client per store and worker."""
    return open_store(url, s3)
