"""Records of many batches as lines of JSON or text, decoded and written in one pass.

The twin of `inspect.record_lines`. Text shows previews of bytes: short, printable, without terminal control
characters.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.cells import (
    BACKSLASH,
    EQUALS,
    LARGEST_NUMBER,
    PLUS,
    QUOTE,
    SPACE,
    SPILL,
    X,
    code_point,
    number_size,
    write_base64,
    write_byte,
    write_bytes,
    write_hex,
    write_iso,
    write_json_string,
    write_number,
)
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.line_widths import (
    HEADER_WIDTH,
    HEADERS_SHOWN,
    KEY_WIDTH,
    OFFSET_WIDTH,
    TIMESTAMP_WIDTH,
    VALUE_WIDTH,
)
from spark_jobs.kernels.memory import Bytes, copy_bytes, load_int64, load_uint8, store_int64
from spark_jobs.kernels.record import NONE, ParsedRecord, character_size, parse_record, read_nullable

_TIMESTAMP = np.frombuffer(b', "timestamp": ', dtype=np.uint8)
_CREATE_TIME = np.frombuffer(b', "timestamp_type": "CreateTime", "key": ', dtype=np.uint8)
_LOG_APPEND_TIME = np.frombuffer(b', "timestamp_type": "LogAppendTime", "key": ', dtype=np.uint8)
_VALUE = np.frombuffer(b', "value": ', dtype=np.uint8)
_HEADERS = np.frombuffer(b', "headers": [', dtype=np.uint8)
_END = np.frombuffer(b"]}\n", dtype=np.uint8)
_SEPARATOR = np.frombuffer(b", ", dtype=np.uint8)
_NULL = np.frombuffer(b"null", dtype=np.uint8)
_OPEN, _CLOSE = b"[]"

_LITERALS = (
    sum(text.size for text in (_TIMESTAMP, _LOG_APPEND_TIME, _VALUE, _HEADERS, _END))
    + 4 * LARGEST_NUMBER
    + SPILL
)
_HEADER_LITERALS = 24
_WORST_ESCAPE = 6
"""Bytes that JSON takes for one byte of text, at most."""
ESCAPED_WIDTH = 4
"""Columns of `\\xNN`."""
_ONES, _SPACES, _TOP_BITS = (int.from_bytes(bytes([byte] * 8), signed=True) for byte in (0x01, 0x20, 0x80))
_TEXT_NULL = np.frombuffer(b"null", dtype=np.uint8)
_BRACE_OPEN, _BRACE_CLOSE, _NEWLINE = b"{}\n"
_GAP = 2
_BLANK = np.full(max(OFFSET_WIDTH, TIMESTAMP_WIDTH, KEY_WIDTH + 1) + _GAP, SPACE, dtype=np.uint8)
"""Spaces for the longest cell."""

TEXT_SIZE = 128 + 4 * (KEY_WIDTH + VALUE_WIDTH + HEADERS_SHOWN * (2 * HEADER_WIDTH + 8))
"""Largest size of a line in bytes: a character needs at most four."""


@helper
def _base64_size(size: int) -> int:
    return (size + 2) // 3 * 4 + 2 if size >= 0 else 4


@helper
def json_size(record: ParsedRecord, prefix_size: int) -> int:
    """Bytes that the line takes at most."""
    cells = _base64_size(record.key_size) + _base64_size(record.value_size)
    headers = record.header_key_bytes * _WORST_ESCAPE + record.header_value_bytes * 2
    return prefix_size + _LITERALS + cells + headers + record.header_count * _HEADER_LITERALS


@helper
def _write_nullable(out: Bytes, at: int, data: Bytes, start: int, size: int) -> int:
    if size < 0:
        return write_bytes(out, at, _NULL)
    at = write_base64(out, write_byte(out, at, QUOTE), data, start, size)
    return write_byte(out, at, QUOTE)


@helper
def _write_json_headers(out: Bytes, at: int, data: Bytes, record: ParsedRecord) -> int:
    position = record.headers_start
    for index in range(record.header_count):
        if index:
            at = write_bytes(out, at, _SEPARATOR)
        _, start, size = read_nullable(data, position, record.position)
        at = write_json_string(out, write_byte(out, at, _OPEN), data, start, size)
        at = write_bytes(out, at, _SEPARATOR)
        _, value_start, value_size = read_nullable(data, start + size, record.position)
        at = _write_nullable(out, at, data, value_start, value_size)
        at = write_byte(out, at, _CLOSE)
        position = value_start + max(value_size, 0)
    return at


@helper
def write_json_line(
    out: Bytes,
    at: int,
    prefix: Bytes,
    offset: int,
    timestamp: int,
    is_log_append_time: bool,
    data: Bytes,
    record: ParsedRecord,
) -> int:
    """`prefix` is the line up to its offset: the same for all records of a partition."""
    at = write_number(out, write_bytes(out, at, prefix), offset)
    at = write_number(out, write_bytes(out, at, _TIMESTAMP), timestamp)
    at = write_bytes(out, at, _LOG_APPEND_TIME if is_log_append_time else _CREATE_TIME)
    at = _write_nullable(out, at, data, record.key_start, record.key_size)
    at = _write_nullable(out, write_bytes(out, at, _VALUE), data, record.value_start, record.value_size)
    at = _write_json_headers(out, write_bytes(out, at, _HEADERS), data, record)
    return write_bytes(out, at, _END)


@helper
def is_printable(point: int) -> bool:
    """Whether a character is printable and does not move, hide or reorder text around it."""
    if point < 0x20 or 0x7F <= point <= 0xA0 or point in (0xAD, 0xFEFF):
        return False
    return not (0x200B <= point <= 0x200F or 0x2028 <= point <= 0x202E or 0x2060 <= point <= 0x206F)


@helper
def _write_escaped(out: Bytes, at: int, data: Bytes, start: int, size: int) -> int:
    for place in range(start, start + size):
        at = write_byte(out, write_byte(out, at, BACKSLASH), X)
        at = write_hex(out, at, load_uint8(data, place), 2)
    return at


@helper
def _write_ellipsis(out: Bytes, at: int) -> int:
    out[at], out[at + 1], out[at + 2] = 0xE2, 0x80, 0xA6
    return at + 3


@helper
def _write_replacement(out: Bytes, at: int) -> int:
    out[at], out[at + 1], out[at + 2] = 0xEF, 0xBF, 0xBD
    return at + 3


@helper
def _all_plain(word: int) -> bool:
    """Whether eight bytes are printable ASCII: none has its top bit, less than 0x20, or 0x7F."""
    return (word | (word - _SPACES) | (word + _ONES)) & _TOP_BITS == 0


@helper
def _write_plain(out: Bytes, at: int, data: Bytes, start: int, size: int) -> int:
    """How many of `size` bytes were written: printable ASCII, eight at a time."""
    done = 0
    while done + 8 <= size:
        word = load_int64(data, start + done)
        if not _all_plain(word):
            break
        store_int64(out, at + done, word)
        done += 8
    return done


@helper
def write_preview(
    out: Bytes, at: int, data: Bytes, start: int, size: int, limit: int, is_text: bool
) -> tuple[int, int]:
    """(position after it, columns used) of at most `limit` columns and an ellipsis if there is more.

    Bytes that are not UTF-8 become U+FFFD if `is_text`, else hexadecimal.
    """
    used = _write_plain(out, at, data, start, min(size, limit))
    at, position, end = at + used, start + used, start + size
    while position < end:
        byte = load_uint8(data, position)
        if 0x20 <= byte < 0x7F and used < limit:  # most text is ASCII
            at = write_byte(out, at, byte)
            position, used = position + 1, used + 1
            continue
        step = character_size(data, position, end)
        bad = step < 0
        step = abs(step)
        shown = not bad and is_printable(code_point(data, position, step))
        if bad and not is_text:
            step = 1  # byte by byte, as many as fit
        width = 1 if shown or (bad and is_text) else ESCAPED_WIDTH * step
        if used + width > limit:
            return _write_ellipsis(out, at), used + 1
        if shown:
            copy_bytes(out, at, data, position, step)
            at += step
        elif bad and is_text:
            at = _write_replacement(out, at)
        else:
            at = _write_escaped(out, at, data, position, step)
        used += width
        position += step
    return at, used


@helper
def _write_right(out: Bytes, at: int, value: int, width: int) -> int:
    """A number that ends at `width`, or beyond it."""
    write_bytes(out, at, _BLANK)
    return write_number(out, at + max(width - number_size(value), 0), value)


@helper
def _end_cell(out: Bytes, at: int, used: int, width: int) -> int:
    """Where the next cell begins: `used` columns of `width` are written, and a gap follows."""
    write_bytes(out, at, _BLANK)  # always the full width: the next cell overwrites the rest
    return at + max(width - used, 0) + _GAP


@helper
def _write_bytes_shown(
    out: Bytes, at: int, data: Bytes, start: int, size: int, limit: int
) -> tuple[int, int]:
    if size < 0:
        return write_bytes(out, at, _TEXT_NULL), 4
    if size == 0:
        return write_byte(out, write_byte(out, at, QUOTE), QUOTE), 2
    return write_preview(out, at, data, start, size, limit, False)


@helper
def _write_text_headers(out: Bytes, at: int, data: Bytes, record: ParsedRecord) -> int:
    at = write_byte(out, _end_cell(out, at, 0, 0), _BRACE_OPEN)
    position = record.headers_start
    for index in range(min(record.header_count, HEADERS_SHOWN)):
        if index:
            at = write_byte(out, at, SPACE)
        _, start, size = read_nullable(data, position, record.position)
        at, _ = write_preview(out, at, data, start, size, HEADER_WIDTH, True)
        at = write_byte(out, at, EQUALS)
        _, value_start, value_size = read_nullable(data, start + size, record.position)
        at, _ = _write_bytes_shown(out, at, data, value_start, value_size, HEADER_WIDTH)
        position = value_start + max(value_size, 0)
    if record.header_count > HEADERS_SHOWN:
        at = write_byte(out, write_byte(out, at, SPACE), PLUS)
        at = write_number(out, at, record.header_count - HEADERS_SHOWN)
    return write_byte(out, at, _BRACE_CLOSE)


@helper
def write_text_line(
    out: Bytes, at: int, offset: int, timestamp: int, data: Bytes, record: ParsedRecord
) -> int:
    """Offset, time, beginnings of key and value, some headers."""
    at = _end_cell(out, _write_right(out, at, offset, OFFSET_WIDTH), 0, 0)
    start, at = at, write_iso(out, at, timestamp)
    at = _end_cell(out, at, at - start, TIMESTAMP_WIDTH)
    at, used = _write_bytes_shown(out, at, data, record.key_start, record.key_size, KEY_WIDTH)
    at = _end_cell(out, at, used, KEY_WIDTH + 1)
    at, _ = _write_bytes_shown(out, at, data, record.value_start, record.value_size, VALUE_WIDTH)
    if record.header_count > 0:
        at = _write_text_headers(out, at, data, record)
    return write_byte(out, at, _NEWLINE)


class LineStop(IntEnum):
    """Why the writer returned."""

    DONE = 0
    NO_ROOM = 1
    """The output has no room for the next record: empty it and continue from the same position."""
    BAD_RECORD = 2
    """The records of this batch are invalid from here on."""


DONE, NO_ROOM, BAD_RECORD = int(LineStop.DONE), int(LineStop.NO_ROOM), int(LineStop.BAD_RECORD)


class PayloadRows(NamedTuple):
    """Decompressed records of batches in one buffer, a row per batch."""

    data: Bytes
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    base_offset: npt.NDArray[np.int64]
    base_timestamp: npt.NDArray[np.int64]
    max_timestamp: npt.NDArray[np.int64]
    is_log_append_time: npt.NDArray[np.bool_]
    record_count: npt.NDArray[np.int32]


class ResumePoint(NamedTuple):
    """Where to continue: the batch, the number of its record, and the position in the buffer."""

    row: int
    record: int
    position: int


class Lines(NamedTuple):
    """The bytes written, why the writer returned, and the room that the next record needs."""

    place: ResumePoint
    stop: int
    written: int
    needed: int


@helper
def _next_batch(payloads: PayloadRows, row: int) -> ResumePoint:
    start = payloads.start[row] if row < payloads.start.size else 0
    return ResumePoint(row, 0, start)


@kernel
def write_lines(
    payloads: PayloadRows, place: ResumePoint, first_offset: int, prefix: Bytes, as_json: bool, out: Bytes
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
        place = ResumePoint(row, place.record + 1, record.position)
    return Lines(place, DONE, at, 0)
