"""Previews of bytes in kernels: short, printable, without terminal control characters.

The twin of `inspect.record_lines`.
"""

from spark_jobs.kernels.cells import BACKSLASH, X, code_point, write_byte, write_hex
from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.memory import Bytes, copy_bytes, load_int64, load_uint8, store_int64
from spark_jobs.kernels.record import character_size

ESCAPED_WIDTH = 4
"""Columns of `\\xNN`."""
_ONES, _SPACES, _TOP_BITS = (int.from_bytes(bytes([byte] * 8), signed=True) for byte in (0x01, 0x20, 0x80))


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
