"""Text cells in kernels: numbers, times and JSON strings, written into a byte buffer.

Every writer takes the buffer and the position to write at, and returns the position after what it wrote. None
checks for room: the caller does. The twins are the cells of `inspect.record_lines` and `inspect.listing`.
"""

import numpy as np

from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.memory import Bytes, copy_bytes, load_uint8, store_int64
from spark_jobs.kernels.record import character_size

_POWERS = np.array([10**exponent for exponent in range(19)], dtype=np.int64)
_EIGHT_DIGITS = 10**8
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_LEAST = -9_223_372_036_854_775_808
_SMALLEST = np.frombuffer(str(_LEAST).encode(), dtype=np.uint8)

ISO_SIZE = 24
LARGEST_NUMBER = 20
"""Bytes of -2^63."""
_END_OF_TIME = 253_402_300_800_000
_DAY = 86_400_000

ZERO, MINUS, COLON, POINT, T, Z, SPACE = b"0-:.TZ "
QUOTE, BACKSLASH, U, X, EQUALS, PLUS = b'"\\ux=+'


@helper
def write_bytes(out: Bytes, at: int, text: Bytes) -> int:
    copy_bytes(out, at, text, 0, text.size)
    return at + text.size


@helper
def write_byte(out: Bytes, at: int, byte: int) -> int:
    out[at] = byte
    return at + 1


@helper
def number_size(value: int) -> int:
    """Bytes that `write_number` takes."""
    if value == _LEAST:
        return LARGEST_NUMBER
    rest = abs(value)
    size = 9 if rest >= _POWERS[8] else 1
    while size < _POWERS.size and rest >= _POWERS[size]:
        size += 1
    return size + (1 if value < 0 else 0)


@helper
def _pair(value: int) -> int:
    """The two digits of a number below 100, as sixteen bits."""
    tens = value * 205 >> 11
    return 0x3030 + (tens << 8) + value - 10 * tens


@helper
def _eight_digits(value: int) -> int:
    """The digits of a number below 10^8, as 64 bits."""
    high, low = value // 10_000, value % 10_000
    return _pair(high // 100) << 48 | _pair(high % 100) << 32 | _pair(low // 100) << 16 | _pair(low % 100)


@helper
def _write_digits(out: Bytes, at: int, value: int, size: int) -> int:
    """The `size` digits of a number below 10^8."""
    store_int64(out, at, _eight_digits(value) << 8 * (8 - size))
    return at + size


@helper
def write_number(out: Bytes, at: int, value: int) -> int:
    """Decimal digits of an int64; eight bytes are written where fewer are needed."""
    if value == _LEAST:
        return write_bytes(out, at, _SMALLEST)
    if value < 0:
        at = write_byte(out, at, MINUS)
        value = -value
    size = number_size(value)
    if size <= 8:
        return _write_digits(out, at, value, size)
    high, low = value // _EIGHT_DIGITS, value % _EIGHT_DIGITS
    if size <= 16:
        at = _write_digits(out, at, high, size - 8)
    else:
        at = _write_digits(out, at, high // _EIGHT_DIGITS, size - 16)
        at = _write_digits(out, at, high % _EIGHT_DIGITS, 8)
    return _write_digits(out, at, low, 8)


@helper
def _date(days: int) -> tuple[int, int, int]:
    """(year, month, day) of a number of days since 1970-01-01."""
    # Years are counted from March, so that a leap day is the last of its year.
    shifted = days + 719_468
    era, day_of_era = shifted // 146_097, shifted % 146_097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    month = month_from_march + (3 if month_from_march < 10 else -9)
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    return era * 400 + year_of_era + (1 if month <= 2 else 0), month, day


@helper
def write_iso(out: Bytes, at: int, milliseconds: int) -> int:
    """`2026-11-16T08:35:50.123Z`, or the number if it is outside the years 1970 to 9999."""
    if milliseconds < 0 or milliseconds >= _END_OF_TIME:
        return write_number(out, at, milliseconds)
    year, month, day = _date(milliseconds // _DAY)
    year_text = _pair(year // 100) << 16 | _pair(year % 100)
    minutes, rest = milliseconds // 60_000 % 1440, milliseconds % 60_000
    hour, minute, second, hundredths = minutes // 60, minutes % 60, rest // 1000, rest // 10 % 100
    store_int64(out, at, year_text << 32 | MINUS << 24 | _pair(month) << 8 | MINUS)
    store_int64(out, at + 8, _pair(day) << 48 | T << 40 | _pair(hour) << 24 | COLON << 16 | _pair(minute))
    fraction = POINT << 32 | _pair(hundredths) << 16 | (ZERO + rest % 10) << 8 | Z
    store_int64(out, at + 16, COLON << 56 | _pair(second) << 40 | fraction)
    return at + ISO_SIZE


@helper
def code_point(data: Bytes, start: int, size: int) -> int:
    """The character that `size` bytes of valid UTF-8 encode."""
    first = load_uint8(data, start)
    if size == 1:
        return first
    point = first & (0x7F >> size)
    for place in range(start + 1, start + size):
        point = point << 6 | load_uint8(data, place) & 0x3F
    return point


@helper
def write_hex(out: Bytes, at: int, value: int, digits: int) -> int:
    for place in range(digits):
        out[at + place] = _HEX[value >> 4 * (digits - 1 - place) & 15]
    return at + digits


@helper
def _write_unicode_escape(out: Bytes, at: int, unit: int) -> int:
    at = write_byte(out, at, BACKSLASH)
    return write_hex(out, write_byte(out, at, U), unit, 4)


@helper
def _short_escape(point: int) -> int:
    """The letter of JSON's short escape for a character, or 0."""
    if point in (QUOTE, BACKSLASH):
        return point
    if point == 8:
        return 98  # b
    if point == 9:
        return 116  # t
    if point == 10:
        return 110  # n
    if point == 12:
        return 102  # f
    return 114 if point == 13 else 0  # r


@helper
def _write_json_character(out: Bytes, at: int, point: int) -> int:
    letter = _short_escape(point)
    if letter:
        return write_byte(out, write_byte(out, at, BACKSLASH), letter)
    if 0x20 <= point < 0x7F:
        return write_byte(out, at, point)
    if point < 0x10000:
        return _write_unicode_escape(out, at, point)
    at = _write_unicode_escape(out, at, 0xD800 + (point - 0x10000 >> 10))
    return _write_unicode_escape(out, at, 0xDC00 + (point - 0x10000 & 0x3FF))


@helper
def write_json_string(out: Bytes, at: int, data: Bytes, start: int, size: int) -> int:
    """Text as a JSON string in ASCII; bytes that are not UTF-8 become U+FFFD."""
    at, position, end = write_byte(out, at, QUOTE), start, start + size
    while position < end:
        step = character_size(data, position, end)
        point = code_point(data, position, step) if step > 0 else 0xFFFD
        at = _write_json_character(out, at, point)
        position += abs(step)
    return write_byte(out, at, QUOTE)
