"""One record as a JSON line in kernels: the twin of `inspect.record_lines.json_line`."""

import numpy as np

from spark_jobs.kernels.base64 import SPILL, write_base64
from spark_jobs.kernels.cells import (
    LARGEST_NUMBER,
    QUOTE,
    write_byte,
    write_bytes,
    write_json_string,
    write_number,
)
from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.memory import Bytes
from spark_jobs.kernels.record import ParsedRecord, read_nullable

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
def _write_headers(out: Bytes, at: int, data: Bytes, record: ParsedRecord) -> int:
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
    at = _write_headers(out, write_bytes(out, at, _HEADERS), data, record)
    return write_bytes(out, at, _END)
