"""Which batches of a segment are at offsets that cannot be theirs.

No checksum covers a base offset, but one does cover how many offsets a batch takes (facts §1.3). So the
batches before it say where a batch is at the earliest. What it has beyond that, the offsets that are
missing before it, never becomes less within a segment: compaction adds to it, nothing takes from it. The name
of the segment says where that begins, and the next one's name, or an end that is known otherwise, how far it
goes.

A batch that breaks this order is found by the others: of all readings that leave some batches out, those
count that leave out the fewest, and before all of them one without any hole between the two names. A batch
that is in every such reading keeps its place. One that is in none, or only in some, has none: nobody guesses.
So one changed base offset is always found, unless it stays between its neighbours.

Legacy wrappers count as one offset, since how many they hold is inside of them. So less is found there.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from spark_jobs.kafka.errors import MisplacedBatch

OFFSETS_PER_SEGMENT = 2**31
"""A segment's indexes hold offsets relative to its own in 32 bits (facts §1.10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpan:
    """What a batch claims: where it begins, and how many offsets it takes; the latter is proved."""

    base_offset: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MisplacedSpan:
    """A batch, by its index, and between which base offsets its neighbours leave room for it."""

    index: int
    earliest: int
    latest: int


def misplaced(spans: Sequence[OffsetSpan], *, start: int, end: int) -> tuple[MisplacedSpan, ...]:
    """Those of a segment's `spans` that cannot be where they say; all should be in `start` to `end`."""
    before = (0, *accumulate(span.count for span in spans))
    missing = [max(span.base_offset, -1) - taken for span, taken in zip(spans, before, strict=False)]
    last = end - before[-1]
    kept = in_every_best_reading([start, *missing, last])
    found = (index for index in range(len(spans)) if index + 1 not in kept)
    return tuple(
        MisplacedSpan(
            index=index,
            earliest=before[index] + max((kept[i] for i in kept if i <= index), default=start),
            latest=before[index] + min((kept[i] for i in kept if i > index), default=last),
        )
        for index in found
    )


def in_every_best_reading(numbers: Sequence[int]) -> dict[int, int]:
    """The numbers, by index, that every best reading has; a reading never falls."""
    upwards = _lengths(numbers)
    downwards = _lengths([-number for number in reversed(numbers)])[::-1]
    longest = max(upwards)
    whole = {index: number for index, number in enumerate(numbers) if number == numbers[0]}
    if numbers[-1] == numbers[0] and len(whole) == longest:
        return whole
    best = [i for i, (up, down) in enumerate(zip(upwards, downwards, strict=True)) if up + down > longest]
    # Every best reading has one number of each rank, so what is alone in its rank is in all of them.
    ranks = Counter(upwards[index] for index in best)
    return {index: numbers[index] for index in best if ranks[upwards[index]] == 1}


def _lengths(numbers: Sequence[int]) -> list[int]:
    """For each number that of the longest reading which ends with it."""
    lengths: list[int] = []
    for number in numbers:
        before = (length for other, length in zip(numbers, lengths, strict=False) if other <= number)
        lengths.append(1 + max(before, default=0))
    return lengths


def sentence(*, base_offset: int, earliest: int, latest: int) -> str:
    """What is wrong with a misplaced batch; where it would fit, another batch says the same of its place."""
    if earliest <= base_offset <= latest:
        return (
            f"{MisplacedBatch.problem}: offset {base_offset} and that of a batch beside it exclude each other"
        )
    room = str(earliest) if earliest == latest else f"{earliest} to {latest}"
    return f"{MisplacedBatch.problem}: expected base offset {room}, found {base_offset}"
