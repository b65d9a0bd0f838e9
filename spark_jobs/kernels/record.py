"""One record of a v2 batch in kernels (facts §1.4): the twin of `kafka.formats.records.read_record`.

A record is parsed strictly and nothing is copied: the result is numbers and positions.
"""

from enum import IntEnum
from typing import NamedTuple

from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.memory import NO_VARINT, Bytes, copy_bytes, load_uint8, read_varint, read_varlong

# Header keys as text: bytes that are not UTF-8 become U+FFFD, as in a consumer.
REPLACEMENT_SIZE = 3
"""Bytes of U+FFFD in UTF-8: ef bf bd."""


@helper
def _continuations(lead: int) -> int:
    """How many bytes follow `lead`; -1 if it begins no character."""
    if lead < 0x80:
        return 0
    if 0xC2 <= lead <= 0xDF:
        return 1
    if 0xE0 <= lead <= 0xEF:
        return 2
    if 0xF0 <= lead <= 0xF4:
        return 3
    return -1


@helper
def _second_fits(lead: int, second: int) -> bool:
    """Whether `second` may follow `lead`: no overlong forms, no surrogates, nothing beyond U+10FFFF."""
    low, high = 0x80, 0xBF
    if lead == 0xE0:
        low = 0xA0
    elif lead == 0xED:
        high = 0x9F
    elif lead == 0xF0:
        low = 0x90
    elif lead == 0xF4:
        high = 0x8F
    return low <= second <= high


@helper
def character_size(data: Bytes, position: int, end: int) -> int:
    """Size of the character at `position`, or minus the size of the bytes to replace."""
    lead = load_uint8(data, position)
    following = _continuations(lead)
    if following < 0:
        return -1
    for index in range(1, following + 1):
        if position + index == end:
            return -index
        byte = load_uint8(data, position + index)
        if index == 1 and not _second_fits(lead, byte):
            return -1
        if byte & 0xC0 != 0x80:
            return -index
    return following + 1


@helper
def repaired_size(data: Bytes, start: int, size: int) -> int:
    """Bytes that `size` bytes from `start` take as valid UTF-8."""
    position, end, total = start, start + size, 0
    while position < end:
        step = character_size(data, position, end)
        total += step if step > 0 else REPLACEMENT_SIZE
        position += abs(step)
    return total


@helper
def write_repaired(target: Bytes, at: int, data: Bytes, start: int, size: int) -> int:
    """Writes `size` bytes from `start` as valid UTF-8 at `at`; returns where they end."""
    position, end = start, start + size
    while position < end:
        step = character_size(data, position, end)
        if step > 0:
            copy_bytes(target, at, data, position, step)
            at += step
        else:
            target[at], target[at + 1], target[at + 2] = 0xEF, 0xBF, 0xBD
            at += REPLACEMENT_SIZE
        position += abs(step)
    return at


class RecordProblem(IntEnum):
    """A problem with the records of a batch."""

    NONE = 0
    NEGATIVE_COUNT = 1
    """The batch claims a negative number of records."""
    MISSING_RECORD = 2
    """The bytes end before the last record."""
    TRAILING_BYTES = 3
    """Bytes are left after the last record."""
    NO_VARINT = 4
    """A varint is cut off or too long."""
    LENGTH_BEYOND_END = 5
    """A record is longer than the bytes that are left."""
    MISSING_ATTRIBUTES = 6
    """A record without even its first byte."""
    BYTES_BEYOND_END = 7
    """A key, value or header that is longer than the bytes that are left."""
    HEADER_COUNT = 8
    """A negative number of headers, or more than there are bytes."""
    WRONG_LENGTH = 9
    """A record that does not fill the length that it claims."""
    TOO_MANY_HEADERS = 10
    """More headers than the configuration allows a record."""


NONE = int(RecordProblem.NONE)
NEGATIVE_COUNT = int(RecordProblem.NEGATIVE_COUNT)
MISSING_RECORD = int(RecordProblem.MISSING_RECORD)
TRAILING_BYTES = int(RecordProblem.TRAILING_BYTES)
BAD_VARINT = int(RecordProblem.NO_VARINT)
LENGTH_BEYOND_END = int(RecordProblem.LENGTH_BEYOND_END)
MISSING_ATTRIBUTES = int(RecordProblem.MISSING_ATTRIBUTES)
BYTES_BEYOND_END = int(RecordProblem.BYTES_BEYOND_END)
HEADER_COUNT = int(RecordProblem.HEADER_COUNT)
WRONG_LENGTH = int(RecordProblem.WRONG_LENGTH)
TOO_MANY_HEADERS = int(RecordProblem.TOO_MANY_HEADERS)
SMALLEST_RECORD = 7
"""Bytes: its length, attributes, two deltas, two sizes and a count, one each."""


class ParsedRecord(NamedTuple):
    """The positions of one record's parts; a size of -1 is null, and `problem` is at `position`."""

    problem: int
    position: int
    timestamp_delta: int
    offset_delta: int
    key_start: int
    key_size: int
    value_start: int
    value_size: int
    headers_start: int
    header_count: int
    header_key_bytes: int
    header_value_bytes: int


@helper
def _fail(problem: int, position: int) -> ParsedRecord:
    return ParsedRecord(problem, position, 0, 0, 0, -1, 0, -1, 0, 0, 0, 0)


@helper
def read_nullable(data: Bytes, position: int, end: int) -> tuple[int, int, int]:
    """(problem, start, size) of bytes with their size in front; with a problem, `start` is its position."""
    size, start = read_varint(data, position, end)
    if start == NO_VARINT:
        return BAD_VARINT, position, -1
    if size > end - start:
        return BYTES_BEYOND_END, start, -1
    return NONE, start, size if size >= 0 else -1


@helper
def _measure_headers(data: Bytes, position: int, end: int, count: int) -> tuple[int, int, int, int]:
    """(problem, position after the headers, bytes of their keys as text, bytes of their values)."""
    key_bytes = value_bytes = 0
    for _ in range(count):
        problem, start, size = read_nullable(data, position, end)
        if problem == NONE and size < 0:
            problem = BYTES_BEYOND_END
        if problem != NONE:
            return problem, start, 0, 0
        key_bytes += repaired_size(data, start, size)
        problem, start, size = read_nullable(data, start + size, end)
        if problem != NONE:
            return problem, start, 0, 0
        value_bytes += max(size, 0)
        position = start + max(size, 0)
    return NONE, position, key_bytes, value_bytes


@helper
def parse_record(data: Bytes, position: int, end: int) -> ParsedRecord:
    """The record at `position`; on success `position` is where the next one begins."""
    length, at = read_varint(data, position, end)
    if at == NO_VARINT:
        return _fail(BAD_VARINT, position)
    if length < 0 or length > end - at:
        return _fail(LENGTH_BEYOND_END, at)
    record_end = at + length
    if at == end:
        return _fail(MISSING_ATTRIBUTES, at)
    timestamp_delta, after_timestamp = read_varlong(data, at + 1, end)
    if after_timestamp == NO_VARINT:
        return _fail(BAD_VARINT, at + 1)
    offset_delta, after_offset = read_varint(data, after_timestamp, end)
    if after_offset == NO_VARINT:
        return _fail(BAD_VARINT, after_timestamp)
    problem, key_start, key_size = read_nullable(data, after_offset, end)
    if problem != NONE:
        return _fail(problem, key_start)
    problem, value_start, value_size = read_nullable(data, key_start + max(key_size, 0), end)
    if problem != NONE:
        return _fail(problem, value_start)
    count_start = value_start + max(value_size, 0)
    header_count, headers_start = read_varint(data, count_start, end)
    if headers_start == NO_VARINT:
        return _fail(BAD_VARINT, count_start)
    if header_count < 0 or header_count > end - headers_start:
        return _fail(HEADER_COUNT, headers_start)
    problem, stop, header_key_bytes, header_value_bytes = _measure_headers(
        data, headers_start, end, header_count
    )
    if problem != NONE:
        return _fail(problem, stop)
    if stop != record_end:
        return _fail(WRONG_LENGTH, stop)
    return ParsedRecord(
        NONE,
        stop,
        timestamp_delta,
        offset_delta,
        key_start,
        key_size,
        value_start,
        value_size,
        headers_start,
        header_count,
        header_key_bytes,
        header_value_bytes,
    )
