"""Records of many batches as lines of text, decoded and written in one pass.

The twin of `inspect.record_lines`.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import Bytes
from spark_jobs.kernels.record import NONE, parse_record
from spark_jobs.kernels.record_json import json_size, write_json_line
from spark_jobs.kernels.record_text import TEXT_SIZE, write_text_line


class LineStop(IntEnum):
    """Why the writer returned."""

    DONE = 0
    NO_ROOM = 1
    """The output has no room for the next record: empty it and continue from the same position."""
    BAD_RECORD = 2
    """The records of this batch are invalid from here on."""


DONE, NO_ROOM, BAD_RECORD = int(LineStop.DONE), int(LineStop.NO_ROOM), int(LineStop.BAD_RECORD)


class Payloads(NamedTuple):
    """Decompressed records of batches in one buffer, a row per batch."""

    data: Bytes
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    base_offset: npt.NDArray[np.int64]
    base_timestamp: npt.NDArray[np.int64]
    max_timestamp: npt.NDArray[np.int64]
    is_log_append_time: npt.NDArray[np.bool_]
    record_count: npt.NDArray[np.int32]


class Place(NamedTuple):
    """Where to continue: the batch, the number of its record, and the position in the buffer."""

    row: int
    record: int
    position: int


class Lines(NamedTuple):
    """The bytes written, why the writer returned, and the room that the next record needs."""

    place: Place
    stop: int
    written: int
    needed: int


@helper
def _next_batch(payloads: Payloads, row: int) -> Place:
    start = payloads.start[row] if row < payloads.start.size else 0
    return Place(row, 0, start)


@kernel
def write_lines(
    payloads: Payloads, place: Place, first_offset: int, prefix: Bytes, as_json: bool, out: Bytes
) -> Lines:
    """Lines of the records from `place` on whose offset is `first_offset` or more."""
    at = 0
    while place.row < payloads.start.size:
        row, position, end = place.row, place.position, payloads.end[place.row]
        if place.record >= payloads.record_count[row]:
            if payloads.record_count[row] < 0 or (position != end and payloads.record_count[row] > 0):
                return Lines(place, BAD_RECORD, at, 0)
            place = _next_batch(payloads, row + 1)
            continue
        if position == end:
            return Lines(place, BAD_RECORD, at, 0)
        record = parse_record(payloads.data, position, end)
        if record.problem != NONE:
            return Lines(place, BAD_RECORD, at, 0)
        needed = json_size(record, prefix.size) if as_json else TEXT_SIZE
        if out.size - at < needed:
            return Lines(place, NO_ROOM, at, needed)
        offset = payloads.base_offset[row] + record.offset_delta
        log_append = payloads.is_log_append_time[row]
        timestamp = (
            payloads.max_timestamp[row]
            if log_append
            else payloads.base_timestamp[row] + record.timestamp_delta
        )
        if offset >= first_offset and as_json:
            at = write_json_line(out, at, prefix, offset, timestamp, log_append, payloads.data, record)
        elif offset >= first_offset:
            at = write_text_line(out, at, offset, timestamp, payloads.data, record)
        place = Place(row, place.record + 1, record.position)
    return Lines(place, DONE, at, 0)
