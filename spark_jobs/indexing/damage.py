"""Stretches of an object that are no batch: how far they reach, and why.

A damaged batch ends where its length says, if that is the object's end or something there looks like a batch.
Otherwise nothing after it can be told from payload, since a record may hold whole batches: the rest of the
object is one stretch, and the next object begins anew.
"""

from dataclasses import dataclass
from struct import Struct

from spark_jobs.indexing.window import Window
from spark_jobs.protocol.errors import BadLength, BadMagic, CorruptData, LimitExceeded, TornBatch
from spark_jobs.protocol.plausible import looks_like_batch
from spark_jobs.protocol.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2
from spark_jobs.protocol.segment import scan

_PREFIX = Struct(">8xi4xb")  # size, magic
_SMALLEST_SIZE = 14
ZEROS = f"{BadLength.problem}: zeros instead of a batch"
GIVEN_UP = "; what follows does not look like a batch, so the rest of the object is not read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """`size` bytes from `position` on that are no batch; `lost` if the walk cannot continue behind them."""

    position: int
    size: int
    reason: str
    lost: bool


def damaged_batch(window: Window, position: int, size: int, max_batch_bytes: int) -> Damage:
    """The damage of a whole batch that is too large, or whose checksum is wrong."""
    if size > max_batch_bytes:
        return _one_batch(window, position, size, _too_large(size, max_batch_bytes))
    return _one_batch(window, position, size, _scan_problem(window.look(position, size)))


def damage_at(window: Window, position: int, max_batch_bytes: int) -> Damage | None:
    """Why no batch begins at `position`; None if the window is only too small to see the whole of it."""
    rest = window.staged.size - position
    head = window.look(position, HEADER_SIZE)
    if len(head) <= _PREFIX.size:
        return _rest(position, rest, f"{TornBatch.problem}: expected a batch, found {rest} bytes")
    length, magic = _PREFIX.unpack_from(head)
    size = LOG_OVERHEAD + length
    if length < _SMALLEST_SIZE:
        return _rest(position, rest, _too_short(length) if any(head) else ZEROS)
    if size > rest:
        return _rest(position, rest, f"{TornBatch.problem}: expected {size} bytes, found {rest} to the end")
    if not 0 <= magic <= MAGIC_V2:
        return _one_batch(window, position, size, f"{BadMagic.problem}: expected 0, 1 or 2, found {magic}")
    if size > max_batch_bytes:
        return _one_batch(window, position, size, _too_large(size, max_batch_bytes))
    return None if position + size > window.end else _one_batch(window, position, size, _too_short(length))


def _one_batch(window: Window, position: int, size: int, reason: str) -> Damage:
    after = position + size
    if after == window.staged.size or looks_like_batch(window.look(after, HEADER_SIZE)):
        return Damage(position=position, size=size, reason=reason, lost=False)
    return _rest(position, window.staged.size - position, reason + GIVEN_UP)


def _rest(position: int, size: int, reason: str) -> Damage:
    return Damage(position=position, size=size, reason=reason, lost=True)


def _scan_problem(batch: bytes) -> str:
    try:
        next(scan(batch))
    except CorruptData as error:
        return f"{error.problem}: expected {error.expected}, found {error.found}"
    raise AssertionError("the kernel refused a batch that its pure twin takes")


def _too_large(size: int, max_batch_bytes: int) -> str:
    return f"{LimitExceeded.problem}: expected a batch of at most {max_batch_bytes} bytes, found {size}"


def _too_short(length: int) -> str:
    return f"{BadLength.problem}: found {length}, too few for a batch"
