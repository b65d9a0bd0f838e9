"""Committed batches → the records of a table, a bounded piece at a time."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.legacy import read_legacy_records
from spark_jobs.kafka.formats.limits import RecordLimits
from spark_jobs.kafka.formats.record_batch import MAGIC_V2
from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kernels.codecs import PayloadProblem
from spark_jobs.kernels.decode import decode_batches
from spark_jobs.kernels.memory import as_bytes
from spark_jobs.kernels.record_buffers import FoundRecords, RecordRows, Totals
from spark_jobs.lake.index_rows import check_indexed
from spark_jobs.pipeline.materialise.batch_rows import BatchRows, join_rows

# The plan of reads: neighbouring batches of one object share a read.

WINDOW_BYTES = 16 * 2**20
"""Most bytes of one read, unless a single batch is larger."""
GAP_BYTES = 256 * 2**10
"""Unneeded bytes between batches that are read rather than skipped with a second request."""
SMALL_BYTES = 128 * 2**10
"""Stretches up to this are decoded together with neighbours: a call costs as much as that many bytes."""
GATHERED_BYTES = 2**20


def gather_reads(rows: BatchRows, stretches: Iterable[slice]) -> Iterator[list[slice]]:
    """Small neighbours together; a large stretch is alone."""
    together: list[slice] = []
    total = 0
    for stretch in stretches:
        size = int(rows.headers.size[stretch].sum())
        if together and (size > SMALL_BYTES or total + size > GATHERED_BYTES):
            yield together
            together, total = [], 0
        together.append(stretch)
        total += GATHERED_BYTES if size > SMALL_BYTES else size
    if together:
        yield together


def plan_reads(rows: BatchRows) -> Iterator[slice]:
    """Neighbouring rows that are close together in one object, each stretch within a window or one batch."""
    position, end = rows.headers.position, rows.headers.position + rows.headers.size
    gap = position[1:] - end[:-1]
    apart = (np.diff(rows.object_order) != 0) | (gap < 0) | (gap > GAP_BYTES)
    # Windows are those of the object: where cuts fall does not depend on which neighbours come along.
    crossed = np.diff((end - 1) // WINDOW_BYTES) != 0
    edges = [0, *(np.flatnonzero(apart | crossed) + 1).tolist(), rows.rows]
    for start, stop in pairwise(edges):
        if start < stop:
            yield slice(start, stop)


PIECE_BYTES = 12 * 2**20
"""Bytes of decompressed records that are decoded at once, give or take a half."""

ReadBytes = Callable[[int, int, int], bytes]
"""(object order, start, length) → bytes of a staged object."""
NameObject = Callable[[int], str]
"""Object order → a name for messages."""
ShowRows = Callable[[BatchRows], npt.NDArray[np.bool_]]
"""Which batches are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedPiece:
    """Records of some batches: the column `batch` of what was found, and problems, count in `rows`."""

    rows: BatchRows
    found: FoundRecords
    problems: tuple[PayloadProblem, ...]

    @property
    def batch_records(self) -> npt.NDArray[np.int64]:
        """How many records of each batch there are."""
        batches = np.arange(self.rows.rows + 1, dtype=np.int32)  # the type of the column, so no copy
        return np.diff(np.searchsorted(self.found.rows.batch, batches))

    @property
    def is_legacy(self) -> bool:
        """Whether the batches are messages of magic 0 and 1; pieces do not mix formats."""
        return bool(self.rows.headers.magic[0] < MAGIC_V2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadStretch:
    """Neighbouring batches of one object, and its bytes from `start` on."""

    rows: BatchRows
    buffer: bytes
    start: int

    def shown(self, shows: ShowRows) -> "ReadStretch":
        """Only the batches that are shown, in the same bytes."""
        return replace(self, rows=self.rows.take(shows(self.rows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Stretches that are decoded together, several only where they are small.

    `stop` is the number of rows up to its last one, among all that are read. `is_checked` means: the batches
    are known to be those that were indexed.
    """

    stretches: tuple[ReadStretch, ...]
    stop: int
    is_checked: bool = False

    def shown(self, shows: ShowRows) -> "Reading":
        """Only what is shown, and of the stretches those that hold any of it."""
        shown = (stretch.shown(shows) for stretch in self.stretches)
        return replace(self, stretches=tuple(stretch for stretch in shown if stretch.rows.rows))

    def joined(self) -> tuple[bytes, BatchRows]:
        """All bytes as one, and all batches with positions that count there."""
        if len(self.stretches) == 1:
            [stretch] = self.stretches
            return stretch.buffer, stretch.rows.move(-stretch.start)
        ends = accumulate((len(stretch.buffer) for stretch in self.stretches), initial=0)
        moved = [each.rows.move(at - each.start) for each, at in zip(self.stretches, ends, strict=False)]
        return b"".join(stretch.buffer for stretch in self.stretches), join_rows(moved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """Reads staged objects; a batch that is not what `index` saw ends the run, an unreadable one does not."""

    read: ReadBytes
    name: NameObject
    limits: RecordLimits

    def decode(self, rows: BatchRows) -> Iterator[DecodedPiece]:
        """The records of `rows` in order."""
        return chain.from_iterable(map(self.pieces, self.readings(rows)))

    def readings(self, rows: BatchRows) -> Iterator[Reading]:
        """The bytes of `rows`, in order, as much at a time as is decoded at once."""
        for neighbours in gather_reads(rows, plan_reads(rows)):
            stretches = tuple(self._read(rows.take(stretch)) for stretch in neighbours)
            yield Reading(stretches=stretches, stop=neighbours[-1].stop)

    def pieces(self, reading: Reading) -> Iterator[DecodedPiece]:
        """The records of what was read."""
        checked = reading if reading.is_checked else self.check(reading)
        pieces = self._together(checked) if len(checked.stretches) > 1 else ()
        yield from pieces or chain.from_iterable(map(self._alone, checked.stretches))

    def check(self, reading: Reading) -> Reading:
        """The same, checked; raises `ObjectChanged` if a batch is not the one that was indexed."""
        buffer, moved = reading.joined()
        check_indexed(buffer, moved.headers, lambda row: self.name(int(moved.object_order[row])))
        return replace(reading, is_checked=True)

    def _read(self, rows: BatchRows) -> ReadStretch:
        start, end = rows.span
        buffer = self.read(int(rows.object_order[0]), start, end - start)
        return ReadStretch(rows=rows, buffer=buffer, start=start)

    def _alone(self, stretch: ReadStretch) -> Iterator[DecodedPiece]:
        """One stretch; errors name its position."""
        moved = stretch.rows.move(-stretch.start)
        kinds = np.flatnonzero(np.diff(moved.headers.magic < MAGIC_V2)) + 1
        for alike in moved.parts(kinds):
            yield from self._pieces(alike, stretch.buffer, stretch.start)

    def _together(self, reading: Reading) -> tuple[DecodedPiece, ...]:
        """Many small stretches as one; none if anything about them is unusual: then each has its turn."""
        buffer, moved = reading.joined()
        if (moved.headers.magic < MAGIC_V2).any():
            return ()
        limit = self.limits.decompressed_bytes
        decoded = tuple(decode_batches(buffer, moved.headers, limit=limit, budget=PIECE_BYTES))
        if any(each.problems for each in decoded):
            return ()
        rows = join_rows([stretch.rows for stretch in reading.stretches])
        return tuple(DecodedPiece(rows=rows, found=each.found, problems=()) for each in decoded)

    def _pieces(self, rows: BatchRows, buffer: bytes, origin: int) -> Iterator[DecodedPiece]:
        source = self.name(int(rows.object_order[0]))
        if rows.headers.magic[0] < MAGIC_V2:
            yield _legacy_piece(rows, buffer, origin, source, self.limits)
            return
        for decoded in decode_batches(
            buffer,
            rows.headers,
            limit=self.limits.decompressed_bytes,
            budget=PIECE_BYTES,
            source=source,
            origin=origin,
            limits=self.limits,
        ):
            yield DecodedPiece(rows=rows.move(origin), found=decoded.found, problems=decoded.problems)


def _legacy_piece(
    rows: BatchRows, buffer: bytes, origin: int, source: str, limits: RecordLimits
) -> DecodedPiece:
    """Messages of magic 0 and 1 one by one, the slow way: there are few of them left."""
    found: list[tuple[int, LogRecord]] = []
    problems: list[PayloadProblem] = []
    places = zip(rows.headers.position.tolist(), rows.headers.size.tolist(), strict=True)
    for batch, (position, size) in enumerate(places):
        message = memoryview(buffer)[position : position + size]
        try:
            records = list(
                read_legacy_records(message, limits=limits, source=source, position=origin + position)
            )
        except CorruptData as error:
            problems.append(PayloadProblem(batch=batch, error=error))
        else:
            found += [(batch, record) for record in records]
    return DecodedPiece(rows=rows.move(origin), found=_legacy_found(found), problems=tuple(problems))


def _legacy_found(records: list[tuple[int, LogRecord]]) -> FoundRecords:
    """The records as kernels find them; of magic 0 and 1, they have no headers."""
    keys = [record.key for _, record in records]
    values = [record.value for _, record in records]
    sizes = np.array([-1 if part is None else len(part) for part in (*keys, *values)], dtype=np.int32)
    ends = np.cumsum(np.maximum(sizes, 0), dtype=np.int64)
    starts, count = ends - np.maximum(sizes, 0), len(records)
    rows = RecordRows(
        batch=np.array([batch for batch, _ in records], dtype=np.int32),
        offset=np.array([record.offset for _, record in records], dtype=np.int64),
        timestamp=np.array([record.timestamp for _, record in records], dtype=np.int64),
        sequence=np.array([record.sequence for _, record in records], dtype=np.int32),
        key_start=starts[:count],
        key_size=sizes[:count],
        value_start=starts[count:],
        value_size=sizes[count:],
        headers_start=np.zeros(count, dtype=np.int64),
        header_count=np.zeros(count, dtype=np.int32),
    )
    arena = as_bytes(b"".join(part for part in (*keys, *values) if part is not None))
    key_bytes = int(np.maximum(rows.key_size, 0).sum(dtype=np.int64))
    return FoundRecords(arena, rows, Totals(count, key_bytes, arena.size - key_bytes, 0, 0, 0))
