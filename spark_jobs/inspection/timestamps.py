"""Milliseconds since 1970 as people read them."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = 253_402_300_800_000
"""The year 10000: a larger number is not a timestamp."""


def iso_timestamp(milliseconds: int) -> str:
    """`2026-11-16T08:35:50.123Z`; a number outside the years 1970 to 9999 stays a number."""
    if not 0 <= milliseconds < _END:
        return str(milliseconds)
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")[:-6] + "Z"
