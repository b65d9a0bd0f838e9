"""The error for a difference between Onceover and a broker, with its first few cases."""

from collections.abc import Iterable

SHOWN = 8


class BrokenPromise(AssertionError):
    """Onceover and the broker differ."""


def expect_none(differences: Iterable[object], promise: str) -> None:
    """Raises `BrokenPromise` if there is any difference."""
    found = [str(each) for each in differences]
    if found:
        reported = "\n  ".join(found[:SHOWN])
        raise BrokenPromise(f"{promise}: {len(found)} differences\n  {reported}")
