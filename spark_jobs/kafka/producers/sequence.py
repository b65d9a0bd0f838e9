"""Sequence numbers run from 0 to 2^31-1 and start again at 0 (facts §2.2).

A broker counts in 32 bits, so forged deltas and sequences wrap there. The kernels compile these functions.
"""

MAX_SEQUENCE = 2**31 - 1
_HALF, _MASK = 2**31, 2**32 - 1


def increment_sequence(sequence: int, increment: int) -> int:
    """`sequence` + `increment`, wrapping from 2^31-1 to 0."""
    limit = ((MAX_SEQUENCE - increment + _HALF) & _MASK) - _HALF
    result = increment - (MAX_SEQUENCE - sequence) - 1 if sequence > limit else sequence + increment
    return ((result + _HALF) & _MASK) - _HALF


def decrement_sequence(sequence: int, decrement: int) -> int:
    """`sequence` - `decrement`, wrapping from 0 to 2^31-1."""
    result = sequence - decrement if sequence >= decrement else MAX_SEQUENCE - (decrement - sequence) + 1
    return ((result + _HALF) & _MASK) - _HALF


def in_sequence(last_sequence: int, next_sequence: int) -> bool:
    """Whether `next_sequence` directly follows `last_sequence`; -1 is followed by 0."""
    return next_sequence == last_sequence + 1 or (next_sequence == 0 and last_sequence == MAX_SEQUENCE)


def is_at_or_before(sequence: int, last_sequence: int) -> bool:
    """Whether `sequence` was taken before or with `last_sequence`; the sequence space is a circle.

    Serial arithmetic: up to half of the sequence space behind `last_sequence` counts as already taken, the
    other half as still to come, so that the answer stays right across the wrap from 2^31-1 to 0.
    """
    return (last_sequence - sequence) % (MAX_SEQUENCE + 1) <= MAX_SEQUENCE // 2
