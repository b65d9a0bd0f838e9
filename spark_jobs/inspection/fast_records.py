"""Records in bulk: decompress, decode and write many batches at a time with compiled code."""

from collections.abc import Iterator

import numpy as np

from spark_jobs.inspection.records import Complain, RecordStyle, Rows, batch_records, plain_lines
from spark_jobs.inspection.segments import Segment
from spark_jobs.kernels.memory import Bytes, as_bytes
from spark_jobs.kernels.record_lines import LineStop, Payloads, Place, write_lines
from spark_jobs.protocol.compression import decompress
from spark_jobs.protocol.errors import CorruptData
from spark_jobs.protocol.record_batch import CODEC_MASK, HEADER_SIZE, MAGIC_V2, TIMESTAMP_TYPE_FLAG

_ARENA = 8 * 1024 * 1024
"""Decompressed bytes that are gathered before they are decoded."""
_OUTPUT = 4 * 1024 * 1024
_PLAIN, _COMPRESSED, _LEGACY = range(3)


def fast_lines(segment: Segment, rows: Rows, style: RecordStyle, complain: Complain) -> Iterator[bytes]:
    """The same lines as `plain_lines`, in large pieces."""
    for kind, run in _runs(segment, rows):
        if kind == _LEGACY:
            yield from plain_lines(segment, run, style, complain)
        elif kind == _PLAIN:
            starts = segment.batches.position[run] + HEADER_SIZE
            ends = segment.batches.position[run] + segment.batches.size[run]
            payloads = _payloads(segment, run, as_bytes(segment.data), starts, ends)
            yield from _lines(segment, run, payloads, style, complain)
        else:
            for part, arena, bounds in _arenas(segment, run, complain):
                payloads = _payloads(segment, part, as_bytes(arena), bounds[:-1], bounds[1:])
                yield from _lines(segment, part, payloads, style, complain)


def _runs(segment: Segment, rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Neighbouring batches that are read in the same way."""
    kinds = np.where((segment.batches.attributes[rows] & CODEC_MASK) != 0, _COMPRESSED, _PLAIN)
    kinds[segment.batches.magic[rows] < MAGIC_V2] = _LEGACY
    for run in np.split(np.arange(rows.size), np.flatnonzero(np.diff(kinds)) + 1):
        if run.size:
            yield int(kinds[run[0]]), rows[run]


def _arenas(segment: Segment, rows: Rows, complain: Complain) -> Iterator[tuple[Rows, bytes, Rows]]:
    """Batches decompressed one behind the other: (rows, bytes, where each begins and the last ends)."""
    taken: list[int] = []
    payloads: list[bytes] = []
    gathered = 0
    for row in rows.tolist():
        try:
            payload = _decompressed(segment, row)
        except CorruptData as error:
            complain(error)
            continue
        taken.append(row)
        payloads.append(payload)
        gathered += len(payload)
        if gathered >= _ARENA:
            yield _joined(taken, payloads)
            taken, payloads, gathered = [], [], 0
    if taken:
        yield _joined(taken, payloads)


def _joined(rows: list[int], payloads: list[bytes]) -> tuple[Rows, bytes, Rows]:
    bounds = np.cumsum([0, *map(len, payloads)], dtype=np.int64)
    return np.array(rows, dtype=np.int64), b"".join(payloads) or b"\0", bounds


def _decompressed(segment: Segment, row: int) -> bytes:
    batches = segment.batches
    start = int(batches.position[row]) + HEADER_SIZE
    end = start - HEADER_SIZE + int(batches.size[row])
    if batches.record_count[row] == 0:
        return b""
    codec = int(batches.attributes[row]) & CODEC_MASK
    return decompress(codec, segment.data[start:end], source=segment.path.name, position=start)


def _lines(
    segment: Segment, rows: Rows, payloads: Payloads, style: RecordStyle, complain: Complain
) -> Iterator[bytes]:
    prefix = as_bytes(style.prefix.encode())
    out, place = np.empty(_OUTPUT, dtype=np.uint8), Place(0, 0, int(payloads.start[0]))
    while True:
        lines = write_lines(payloads, place, style.first_offset, prefix, style.as_json, out)
        if lines.written:
            yield out[: lines.written].tobytes()
        place = lines.place
        if lines.stop == LineStop.DONE:
            return
        if lines.stop == LineStop.BAD_RECORD:
            _explain(segment, rows[place.row : place.row + 1], complain)
            if place.row + 1 == rows.size:
                return
            place = Place(place.row + 1, 0, int(payloads.start[place.row + 1]))
        elif lines.needed > out.size:
            out = np.empty(lines.needed, dtype=np.uint8)


def _payloads(segment: Segment, rows: Rows, data: Bytes, starts: Rows, ends: Rows) -> Payloads:
    batches = segment.batches
    return Payloads(
        data=data,
        start=starts,
        end=ends,
        base_offset=batches.base_offset[rows],
        base_timestamp=batches.base_timestamp[rows],
        max_timestamp=batches.max_timestamp[rows],
        is_log_append_time=(batches.attributes[rows] & TIMESTAMP_TYPE_FLAG) != 0,
        record_count=batches.record_count[rows],
    )


def _explain(segment: Segment, row: Rows, complain: Complain) -> None:
    """The plain reader's own words for what the kernel stopped at."""
    for _ in batch_records(segment, row, complain):
        pass
