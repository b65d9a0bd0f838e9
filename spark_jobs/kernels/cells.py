"""Text in kernels: numbers, times, JSON strings and base64 as cells, and rows of numbers as lines of cells.

Every writer of a cell takes the buffer and the position to write at, and returns the position after what it
wrote. None checks for room: the caller does. The twins are the cells of `inspect.record_lines` and
`inspect.row_lines`. Listings differ only in data (text before each cell, kind, width, labels): one compiled
function writes them all.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from spark_jobs.kernels.compile import helper, kernel
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
_BASE64_CHARACTERS = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8
)
_BASE64_STEP, _HALF = 24, 12
_READ = _HALF + 16
"""Bytes read per step: sixteen for each half of it."""
SPILL = 32
"""Bytes behind its end that `write_base64` may overwrite."""

_READ_TYPE = ir.VectorType(ir.IntType(8), 16)
_BYTES, _HALVES, _WORDS = (ir.VectorType(ir.IntType(bits), 256 // bits) for bits in (8, 16, 32))
_SPREAD = [
    half + 3 * group + place for half in (0, _READ_TYPE.count) for group in range(4) for place in (1, 0, 2, 1)
]
"""Each three bytes spread over four, such that no six bits cross a 16-bit half."""
_CHARACTER_STEPS = ((25, 6), (51, -75), (61, -15), (62, 3))
"""(number, distance): above that number, characters are that much further from A: a, 0, + and /."""
NUMBER, LABEL, TIMESTAMP = 0, 1, 2


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


# Base64: 24 bytes become 32 characters at a time. Written with LLVM's vector types, so that LLVM selects the
# instructions of the processor.


def _splat(kind: ir.VectorType, *values: int) -> ir.Constant:
    """The values, repeated."""
    mask = (1 << kind.element.width) - 1
    return ir.Constant(kind, [values[index % len(values)] & mask for index in range(kind.count)])


def _sextets(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    """Six bits in each of 32 bytes, from the first twelve bytes of both halves."""
    order = ir.Constant(ir.VectorType(ir.IntType(32), _BYTES.count), _SPREAD)
    words = builder.bitcast(builder.shuffle_vector(first, second, order), _WORDS)
    outer = builder.bitcast(builder.and_(words, _splat(_WORDS, 0x0FC0FC00)), _HALVES)
    inner = builder.bitcast(builder.and_(words, _splat(_WORDS, 0x003F03F0)), _HALVES)
    both = builder.or_(builder.lshr(outer, _splat(_HALVES, 10, 6)), builder.shl(inner, _splat(_HALVES, 4, 8)))
    return builder.bitcast(both, _BYTES)


def _characters(builder: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    found = builder.add(numbers, _splat(_BYTES, ord("A")))
    for last, step in _CHARACTER_STEPS:
        is_above = builder.icmp_unsigned(">", numbers, _splat(_BYTES, last))
        found = builder.add(found, builder.select(is_above, _splat(_BYTES, step), _splat(_BYTES, 0)))
    return found


@intrinsic
def _write_step(_: Any, out: Any, at: Any, data: Any, start: Any) -> Any:  # noqa: ARG001 - numba reads the signature
    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        def place(array: int, further: int, kind: ir.VectorType) -> ir.Value:
            base = context.make_array(signature.args[array])(context, builder, args[array]).data
            index = builder.add(args[array + 1], ir.Constant(ir.IntType(64), further))
            found = builder.gep(builder.bitcast(base, ir.IntType(8).as_pointer()), [index])
            return builder.bitcast(found, kind.as_pointer())

        halves = (builder.load(place(2, further, _READ_TYPE), align=1) for further in (0, _HALF))
        builder.store(_characters(builder, _sextets(builder, *halves)), place(0, 0, _BYTES), align=1)
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64), generate


_encode_step = cast("Callable[[Bytes, int, Bytes, int], None]", _write_step)
"""(out, at, data, start): `_READ` bytes can be read, and 32 written."""


@helper
def _write_three(out: Bytes, at: int, first: int, second: int, third: int) -> None:
    out[at] = _BASE64_CHARACTERS[first >> 2]
    out[at + 1] = _BASE64_CHARACTERS[(first & 3) << 4 | second >> 4]
    out[at + 2] = _BASE64_CHARACTERS[(second & 15) << 2 | third >> 6]
    out[at + 3] = _BASE64_CHARACTERS[third & 63]


@helper
def _write_whole(out: Bytes, at: int, data: Bytes, start: int, size: int) -> int:
    """`size` is a multiple of three."""
    done = 0
    while done < size and start + done + _READ <= data.size:
        _encode_step(out, at + done // 3 * 4, data, start + done)
        done += _BASE64_STEP
    for place in range(done, size, 3):  # at the end of all data
        first, second = load_uint8(data, start + place), load_uint8(data, start + place + 1)
        _write_three(out, at + place // 3 * 4, first, second, load_uint8(data, start + place + 2))
    return at + size // 3 * 4


@helper
def write_base64(out: Bytes, at: int, data: Bytes, start: int, size: int) -> int:
    """`size` bytes from `start`, padded with `=`."""
    left = size % 3
    at = _write_whole(out, at, data, start, size - left)
    if left == 0:
        return at
    first = load_uint8(data, start + size - left)
    second = load_uint8(data, start + size - 1) if left == 2 else 0
    _write_three(out, at, first, second, 0)
    out[at + 3] = EQUALS
    if left == 1:
        out[at + 2] = EQUALS
    return at + 4


# Rows of numbers.


class Texts(NamedTuple):
    """Short texts in one buffer; text i is from `starts[i]` to `starts[i + 1]`."""

    data: Bytes
    starts: npt.NDArray[np.int64]


class RowLayout(NamedTuple):
    """How rows are written; one element per column, `before` has one more for the end of the line."""

    kinds: npt.NDArray[np.int64]
    widths: npt.NDArray[np.int64]
    nullable: npt.NDArray[np.bool_]
    nulls: npt.NDArray[np.int64]
    before: Texts
    labels: Texts
    first_labels: npt.NDArray[np.int64]
    """Where a column's labels begin in `labels`; the first of them is for null."""


def pack_texts(texts: list[bytes]) -> Texts:
    """`texts` as kernels read them."""
    starts = np.cumsum([0, *(len(text) for text in texts)], dtype=np.int64)
    return Texts(np.frombuffer(b"".join(texts) + b"\0", dtype=np.uint8), starts)


@helper
def _write_text(out: Bytes, at: int, texts: Texts, index: int) -> int:
    start, end = texts.starts[index], texts.starts[index + 1]
    copy_bytes(out, at, texts.data, start, end - start)
    return at + int(end - start)


@helper
def _write_cell(out: Bytes, at: int, layout: RowLayout, column: int, value: int) -> int:
    if layout.nullable[column] and value == layout.nulls[column]:
        return _write_text(out, at, layout.labels, layout.first_labels[column])
    if layout.kinds[column] == LABEL:
        return _write_text(out, at, layout.labels, layout.first_labels[column] + 1 + value)
    return write_iso(out, at, value) if layout.kinds[column] == TIMESTAMP else write_number(out, at, value)


@helper
def _pad(out: Bytes, start: int, end: int, width: int) -> int:
    """Pads the cell from `start` to `end` with spaces; all its characters are ASCII."""
    missing = abs(width) - (end - start)
    if missing <= 0:
        return end
    if width > 0:
        for place in range(end - 1, start - 1, -1):
            out[place + missing] = out[place]
    first = start if width > 0 else end
    for place in range(first, first + missing):
        out[place] = SPACE
    return end + missing


@kernel
def _write_rows(values: npt.NDArray[np.int64], layout: RowLayout, out: Bytes) -> int:
    columns, rows = values.shape
    at = 0
    for row in range(rows):
        for column in range(columns):
            at = _write_text(out, at, layout.before, column)
            at = _pad(
                out, at, _write_cell(out, at, layout, column, values[column, row]), layout.widths[column]
            )
        at = _write_text(out, at, layout.before, columns)
    return at


def write_rows(values: npt.NDArray[np.int64], layout: RowLayout) -> Bytes:
    """The lines of `values`, a row per column of the listing."""
    longest_label = int(np.diff(layout.labels.starts).max(initial=0))
    cell = max(LARGEST_NUMBER, ISO_SIZE, longest_label, int(np.abs(layout.widths).max(initial=0)))
    line = int(layout.before.starts[-1]) + values.shape[0] * cell
    out = np.empty(values.shape[1] * line, dtype=np.uint8)
    return out[: _write_rows(values, layout, out)]
