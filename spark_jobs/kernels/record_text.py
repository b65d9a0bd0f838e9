"""One record as a line of text in kernels: the twin of `inspect.record_lines.text_line`."""

import numpy as np

from spark_jobs.kernels.cells import (
    EQUALS,
    PLUS,
    QUOTE,
    SPACE,
    number_size,
    write_byte,
    write_bytes,
    write_iso,
    write_number,
)
from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.line_widths import (
    HEADER_WIDTH,
    HEADERS_SHOWN,
    KEY_WIDTH,
    OFFSET_WIDTH,
    TIMESTAMP_WIDTH,
    VALUE_WIDTH,
)
from spark_jobs.kernels.memory import Bytes
from spark_jobs.kernels.preview import write_preview
from spark_jobs.kernels.record import ParsedRecord, read_nullable

_NULL = np.frombuffer(b"null", dtype=np.uint8)
_OPEN, _CLOSE, _NEWLINE = b"{}\n"
_GAP = 2
_BLANK = np.full(max(OFFSET_WIDTH, TIMESTAMP_WIDTH, KEY_WIDTH + 1) + _GAP, SPACE, dtype=np.uint8)
"""Spaces for the longest cell."""

TEXT_SIZE = 128 + 4 * (KEY_WIDTH + VALUE_WIDTH + HEADERS_SHOWN * (2 * HEADER_WIDTH + 8))
"""Largest size of a line in bytes: a character needs at most four."""


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
        return write_bytes(out, at, _NULL), 4
    if size == 0:
        return write_byte(out, write_byte(out, at, QUOTE), QUOTE), 2
    return write_preview(out, at, data, start, size, limit, False)


@helper
def _write_headers(out: Bytes, at: int, data: Bytes, record: ParsedRecord) -> int:
    at = write_byte(out, _end_cell(out, at, 0, 0), _OPEN)
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
    return write_byte(out, at, _CLOSE)


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
        at = _write_headers(out, at, data, record)
    return write_byte(out, at, _NEWLINE)
