"""How far each partition can be published without tearing a transaction apart.

A partition is decided up to the oldest transaction that nobody has decided. A committed transaction that
reaches beyond that, on any of its partitions, has to wait on all of them, and so moves their cuts before
itself; which may reach yet others. What is left when nothing moves any more is a night's cut: every committed
transaction is published whole, or not at all.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Offsets = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """Parts of committed transactions with records to publish: whose, where, from which to which offset."""

    transaction: Numbers
    partition: Numbers
    first_offset: Offsets
    last_offset: Offsets


def lower_cuts(extents: Extents, cuts: Offsets, floors: Offsets) -> Offsets:
    """`cuts` moved down until no transaction lies on both sides; never below `floors`: that is published."""
    lowered = cuts
    while True:
        waiting = waiting_parts(extents, lowered)
        moved = lowered.copy()
        np.minimum.at(moved, extents.partition[waiting], extents.first_offset[waiting])
        moved = np.maximum(moved, floors)
        if np.array_equal(moved, lowered):
            return lowered
        lowered = moved


def waiting_parts(extents: Extents, cuts: Offsets) -> Flags:
    """Which parts are of a transaction that reaches beyond a cut somewhere."""
    is_beyond = extents.last_offset >= cuts[extents.partition]
    waits = np.zeros(extents.transaction.max(initial=-1) + 1, dtype=np.bool_)
    waits[extents.transaction[is_beyond]] = True
    found: Flags = waits[extents.transaction]
    return found
