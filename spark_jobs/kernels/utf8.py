"""Header keys as text inside kernels: bytes that are not UTF-8 become U+FFFD, as a consumer shows them.

The twin of `bytes.decode(errors="replace")`: each longest beginning of a valid character that then breaks
off, and each byte that can begin none, becomes one U+FFFD (The Unicode Standard, section 3.9, table 3-7).
"""

from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.memory import Bytes, copy_bytes, load_uint8

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
    """Size of the character at `position`, or minus the size of what must be replaced."""
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
