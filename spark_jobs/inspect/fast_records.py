"""Records in bulk: compiled code decompresses, decodes and writes many batches at a time, on all cores.

Output buffers and the arena of each thread are reused, because memory that was touched before is faster.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from threading import local

import numpy as np

from spark_jobs.inspect.record_lines import OnCorrupt, RecordStyle, Rows, batch_records, plain_lines
from spark_jobs.inspect.segment_files import Segment
from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.record_batch import CODEC_MASK, MAGIC_V2, TIMESTAMP_TYPE_FLAG
from spark_jobs.kernels.codecs import decompress_batches
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.memory import Arena, Bytes, as_bytes
from spark_jobs.kernels.record_lines import LineStop, PayloadRows, ResumePoint, write_lines
from spark_jobs.reading.in_order import in_order

BUFFER_SIZE = 4 * 1024 * 1024
_PART = 4 * 1024 * 1024
"""About how many bytes of records one thread processes at a time."""
_LIKELY_RATIO = 4
"""Assumed bytes of records per compressed byte."""
_THREADS = local()


class OutputBuffers:
    """Free buffers; an append or a pop of a deque is atomic, so threads may share them."""

    def __init__(self) -> None:
        self._free: deque[Bytes] = deque()

    def take(self, at_least: int = 0) -> Bytes:
        """A buffer of the usual size, or of the size that one long record needs."""
        if at_least > BUFFER_SIZE:
            return np.empty(at_least, dtype=np.uint8)
        try:
            return self._free.pop()
        except IndexError:
            return np.empty(BUFFER_SIZE, dtype=np.uint8)

    def give_back(self, buffer: Bytes) -> None:
        """The lines in it have been printed."""
        if buffer.size == BUFFER_SIZE:
            self._free.append(buffer)


_BUFFERS = OutputBuffers()


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLines:
    """The lines of one part, and the batches whose records were damaged."""

    pieces: list[tuple[Bytes, int]]
    """Buffers and how much of each is filled."""
    problems: list[CorruptData]


def fast_lines(
    segment: Segment, rows: Rows, style: RecordStyle, on_corrupt: OnCorrupt
) -> Iterator[memoryview]:
    """The same lines as `plain_lines`, in pieces that are valid until the next one is requested."""
    writer = _Writer(segment, style)
    for written in in_order(writer.write, _parts(segment, rows)):
        yield from writer.hand_out(written, on_corrupt)


def _parts(segment: Segment, rows: Rows) -> list[Rows]:
    """Neighbouring batches of one format, about `_PART` bytes of records."""
    is_compressed = segment.batches.attributes[rows] & CODEC_MASK != 0
    size = segment.batches.size[rows] * np.where(is_compressed, _LIKELY_RATIO, 1)
    part = np.cumsum(size) // _PART
    is_legacy = segment.batches.magic[rows] < MAGIC_V2
    return np.split(rows, np.flatnonzero(np.diff(part) | np.diff(is_legacy)) + 1) if rows.size else []


class _Writer:
    """Writes parts of one segment, several at a time."""

    def __init__(self, segment: Segment, style: RecordStyle) -> None:
        self._segment, self._style = segment, style
        self._prefix = as_bytes(style.prefix.encode())

    def hand_out(self, written: WrittenLines, on_corrupt: OnCorrupt) -> Iterator[memoryview]:
        """The finished lines of a part; a buffer is reused when the next piece is requested."""
        for buffer, size in written.pieces:
            yield memoryview(buffer.data)[:size]
            _BUFFERS.give_back(buffer)
        for problem in written.problems:
            on_corrupt(problem)

    def write(self, rows: Rows) -> WrittenLines:
        """Lines of the batches at `rows`, which are of one format."""
        written = WrittenLines(pieces=[], problems=[])
        if self._segment.batches.magic[rows[0]] < MAGIC_V2:
            for line in plain_lines(self._segment, rows, self._style, written.problems.append):
                written.pieces.append((np.frombuffer(line, dtype=np.uint8), len(line)))
        while rows.size and self._segment.batches.magic[rows[0]] >= MAGIC_V2:
            payloads = self._decompress(rows)
            self._write_lines(rows, payloads, written)
            rows = rows[payloads.start.size :]
        return written

    def _decompress(self, rows: Rows) -> PayloadRows:
        """The payloads of the first of `rows`, as many as fit."""
        headers = HeaderColumns._make(column[rows] for column in self._segment.batches)
        source = self._segment.path.name
        found = decompress_batches(self._segment.data, headers, source=source, arena=_arena())
        return PayloadRows(
            data=found.arena,
            start=found.start,
            end=found.end,
            base_offset=headers.base_offset,
            base_timestamp=headers.base_timestamp,
            max_timestamp=headers.max_timestamp,
            is_log_append_time=(headers.attributes & TIMESTAMP_TYPE_FLAG) != 0,
            record_count=headers.record_count,
        )

    def _write_lines(self, rows: Rows, payloads: PayloadRows, written: WrittenLines) -> None:
        place, stop, needed = ResumePoint(0, 0, int(payloads.start[0])), LineStop.NO_ROOM, 0
        while stop is not LineStop.DONE:
            out = _BUFFERS.take(needed)
            lines = write_lines(
                payloads, place, self._style.first_offset, self._prefix, self._style.as_json, out
            )
            written.pieces.append((out, lines.written))
            place, stop, needed = lines.place, LineStop(lines.stop), lines.needed
            if stop is LineStop.BAD_RECORD:
                self._explain(rows[place.row : place.row + 1], written)
                place = _after(payloads, place.row)

    def _explain(self, row: Rows, written: WrittenLines) -> None:
        """Reports the error of the plain reader at the batch where the compiled one stopped."""
        for _ in batch_records(self._segment, row, written.problems.append):
            pass


def _arena() -> Arena:
    """The arena of this thread."""
    if not hasattr(_THREADS, "arena"):
        _THREADS.arena = Arena(_PART)
    arena: Arena = _THREADS.arena
    return arena


def _after(payloads: PayloadRows, row: int) -> ResumePoint:
    is_last = row + 1 == payloads.start.size
    return ResumePoint(row + 1, 0, 0 if is_last else int(payloads.start[row + 1]))
