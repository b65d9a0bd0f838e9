"""Committed batches → the records of a table, in Arrow, a bounded piece at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.kernels.arrow import RECORD_SCHEMA
from spark_jobs.kernels.batches import decode_batches
from spark_jobs.kernels.decompress import PayloadProblem
from spark_jobs.kernels.intact import find_intact
from spark_jobs.materialising.reads import gather_reads, plan_reads
from spark_jobs.materialising.rows import BatchRows, join_rows
from spark_jobs.protocol.errors import CorruptData
from spark_jobs.protocol.legacy import read_legacy_records
from spark_jobs.protocol.limits import Limits
from spark_jobs.protocol.record_batch import MAGIC_V2
from spark_jobs.protocol.records import LogRecord
from spark_jobs.storage.errors import ObjectChanged

PIECE_BYTES = 8 * 2**20
"""Bytes of decompressed records that are decoded at once, and one batch more; the cache still holds them."""

ReadBytes = Callable[[int, int, int], bytes]
"""(object order, start, length) → bytes of a staged object."""
NameObject = Callable[[int], str]
"""Object order → a name for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Records of some batches: the column `batch` of `records`, and problems, count in `rows`."""

    rows: BatchRows
    records: pa.RecordBatch
    problems: tuple[PayloadProblem, ...]

    @property
    def is_legacy(self) -> bool:
        """Whether the batches are messages of magic 0 and 1; pieces do not mix formats."""
        return bool(self.rows.headers.magic[0] < MAGIC_V2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """Reads staged objects; a batch that is not what `index` saw ends the run, an unreadable one does not."""

    read: ReadBytes
    name: NameObject
    limits: Limits

    def decode(self, rows: BatchRows) -> Iterator[Piece]:
        """The records of `rows` in order."""
        for neighbours in gather_reads(rows, plan_reads(rows)):
            stretches = [rows.take(stretch) for stretch in neighbours]
            buffers = [self._read(stretch) for stretch in stretches]
            pieces = self._together(stretches, buffers) if len(stretches) > 1 else ()
            yield from pieces or chain.from_iterable(map(self._alone, stretches, buffers))

    def _read(self, stretch: BatchRows) -> bytes:
        start, end = stretch.span
        return self.read(int(stretch.object_order[0]), start, end - start)

    def _alone(self, stretch: BatchRows, buffer: bytes) -> Iterator[Piece]:
        """One stretch; what is wrong with it is said with its place."""
        start, _ = stretch.span
        moved = stretch.move(-start)
        if not find_intact(buffer, moved.headers).all():
            name = self.name(int(stretch.object_order[0]))
            raise ObjectChanged(f"{name}: its batches are not those that were indexed")
        kinds = np.flatnonzero(np.diff(moved.headers.magic < MAGIC_V2)) + 1
        for alike in moved.parts(kinds):
            yield from self._pieces(alike, buffer, start)

    def _together(self, stretches: Sequence[BatchRows], buffers: Sequence[bytes]) -> tuple[Piece, ...]:
        """Many small stretches as one; none if anything about them is unusual: then each has its turn."""
        rows = join_rows(stretches)
        sizes = np.array([len(buffer) for buffer in buffers], dtype=np.int64)
        starts = np.array([stretch.span[0] for stretch in stretches], dtype=np.int64)
        shift = np.repeat(np.cumsum(sizes) - sizes - starts, [stretch.rows for stretch in stretches])
        headers = rows.headers._replace(position=rows.headers.position + shift)
        buffer = b"".join(buffers)
        if (headers.magic < MAGIC_V2).any() or not find_intact(buffer, headers).all():
            return ()
        limit = self.limits.decompressed_bytes
        decoded = tuple(decode_batches(buffer, headers, limit=limit, budget=PIECE_BYTES))
        if any(each.problems for each in decoded):
            return ()
        return tuple(Piece(rows=rows, records=each.records, problems=()) for each in decoded)

    def _pieces(self, rows: BatchRows, buffer: bytes, origin: int) -> Iterator[Piece]:
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
            yield Piece(rows=rows.move(origin), records=decoded.records, problems=decoded.problems)


def _legacy_piece(rows: BatchRows, buffer: bytes, origin: int, source: str, limits: Limits) -> Piece:
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
    return Piece(rows=rows.move(origin), records=_legacy_records(found), problems=tuple(problems))


def _legacy_records(found: list[tuple[int, LogRecord]]) -> pa.RecordBatch:
    plain: list[dict[str, Any]] = [
        {
            "batch": batch,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "sequence": record.sequence,
            "key": record.key,
            "value": record.value,
            "headers": [],
        }
        for batch, record in found
    ]
    return pa.RecordBatch.from_pylist(plain, schema=RECORD_SCHEMA)
