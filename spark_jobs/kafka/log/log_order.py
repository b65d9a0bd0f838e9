"""Finds the batches of a segment whose base offset must be wrong.

No checksum covers a base offset, but one does cover how many offsets a batch takes (facts §1.3). So the
batches before it give the lowest base offset that a batch can have. The offsets missing before a batch,
beyond that minimum, never decrease within a segment: compaction adds to them, nothing removes any. They begin
at the segment's base offset and end at the next segment's, or at an end that is known otherwise.

A *reading* is a choice of batches that keeps this order. The best readings leave out the fewest batches; a
reading without any missing offset between the two ends is better than all others. A batch in every best
reading is in its place. A batch in none, or only in some, is misplaced: no guess is made. So one changed base
offset is always found, unless it stays between its neighbours.

Legacy wrappers count as one offset, since only decompression shows how many they hold. So less is found
there.
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
    """A batch's base offset, as claimed, and its number of offsets, which its checksum covers."""

    base_offset: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MisplacedSpan:
    """A misplaced batch, by its index, and the range of base offsets that its neighbours leave for it."""

    index: int
    earliest: int
    latest: int


def misplaced(spans: Sequence[OffsetSpan], *, start: int, end: int) -> tuple[MisplacedSpan, ...]:
    """The misplaced ones of a segment's `spans`; all should be in `start` to `end`."""
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
    """Indexes of the numbers that every longest non-decreasing subsequence has."""
    upwards = _lengths(numbers)
    downwards = _lengths([-number for number in reversed(numbers)])[::-1]
    longest = max(upwards)
    whole = {index: number for index, number in enumerate(numbers) if number == numbers[0]}
    if numbers[-1] == numbers[0] and len(whole) == longest:
        return whole
    best = [i for i, (up, down) in enumerate(zip(upwards, downwards, strict=True)) if up + down > longest]
    # Every longest subsequence has one number of each rank, so one that is alone in its rank is in all.
    ranks = Counter(upwards[index] for index in best)
    return {index: numbers[index] for index in best if ranks[upwards[index]] == 1}


def _lengths(numbers: Sequence[int]) -> list[int]:
    """For each number the length of the longest non-decreasing subsequence that ends with it."""
    lengths: list[int] = []
    for number in numbers:
        before = (length for other, length in zip(numbers, lengths, strict=False) if other <= number)
        lengths.append(1 + max(before, default=0))
    return lengths


def sentence(*, base_offset: int, earliest: int, latest: int) -> str:
    """The error text for a misplaced batch; if it would fit, it conflicts with another batch."""
    if earliest <= base_offset <= latest:
        return (
            f"{MisplacedBatch.problem}: offset {base_offset} and that of a batch beside it exclude each other"
        )
    room = str(earliest) if earliest == latest else f"{earliest} to {latest}"
    return f"{MisplacedBatch.problem}: expected base offset {room}, found {base_offset}"
