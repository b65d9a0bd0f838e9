"""What became of a payload that a kernel was to decompress."""

from typing import NamedTuple

DONE, UNUSUAL, NEEDS_ROOM = 0, 1, 2
"""It is there; it is left to the pure way; it can be tried again where there is more memory."""


class Outcome(NamedTuple):
    """`used` bytes of memory hold content; `room` bytes behind the others would suffice if it needs room."""

    status: int
    used: int
    room: int
