"""Files of the lake's own that cannot be understood any more: a sentence and what to do, never a guess."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from spark_jobs.storage.errors import Damaged

RESTORE = "restore it from a copy of the lake"
_SEAL = b'{"sealed":"'


@contextmanager
def understood(source: str, remedy: str = RESTORE) -> Iterator[None]:
    """What cannot be made of the bytes of `source` below is their damage, and not a mistake of ours."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Damaged(f"{source}: damaged, it cannot be read ({_short(error)}); {remedy}") from error


def sealed(lines: bytes) -> bytes:
    """JSON lines with a last one that holds their SHA-256."""
    return lines + _SEAL + hashlib.sha256(lines).hexdigest().encode() + b'"}\n'


def unsealed(data: bytes, *, source: str, remedy: str = RESTORE) -> bytes:
    """The lines before the seal; those of earlier versions have none."""
    start = data.rfind(_SEAL)
    if start < 0:
        return data
    if sealed(data[:start]) != data:
        raise Damaged(
            f"{source}: damaged, the SHA-256 of its lines differs from the one in its last line; {remedy}"
        )
    return data[:start]


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:120]
