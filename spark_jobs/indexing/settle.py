"""Do the parts of an object fit together? One that does not begin where the one before ends is read again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from spark_jobs.indexing.piece import Bin, Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedBin:
    """A bin and what a worker made of it."""

    bin: Bin
    summary: Summary

    @property
    def bytes(self) -> int:
        """Bytes that the rows cover: a part's begin and end at boundaries."""
        if self.bin.is_part and self.summary.first is not None:
            return self.summary.end - self.summary.first
        return self.bin.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """`kept` parts follow one another from an object's start on.

    `again` has the first part of each object that does not, with the boundary where it has to begin. `empty`
    parts are inside a batch, or in the rest of an object that is lost: they have no rows.
    """

    kept: tuple[IndexedBin, ...]
    empty: tuple[IndexedBin, ...]
    again: tuple[Bin, ...]


IndexRound = Callable[[Sequence[Bin]], Iterable[IndexedBin]]
"""Has workers index some bins, and gives them back in the same order."""


def index_until_settled(bins: Sequence[Bin], index: IndexRound) -> Settlement:
    """Index all `bins`, and parts again, each time with a true boundary, until nothing is left to repeat.

    Every round settles at least one more part of each object, so there are at most as many rounds as parts.
    """
    indexed = {each.bin.place: each for each in index(bins)}
    settled = settle_all(indexed.values())
    while settled.again:
        indexed |= {each.bin.place: each for each in index(settled.again)}
        settled = settle_all(indexed.values())
    return settled


def settle_all(indexed: Iterable[IndexedBin]) -> Settlement:
    """Follow the boundaries through every object; bins are in order."""
    settled = [settle(parts) for parts in _by_object(indexed)]
    return Settlement(
        kept=tuple(each for settlement in settled for each in settlement.kept),
        empty=tuple(each for settlement in settled for each in settlement.empty),
        again=tuple(each for settlement in settled for each in settlement.again),
    )


def settle(parts: Iterable[IndexedBin]) -> Settlement:
    """Follow the boundaries through all parts of one object; whole objects fit by themselves."""
    boundary = 0
    kept: list[IndexedBin] = []
    empty: list[IndexedBin] = []
    for number, part in enumerate(parts):
        boundary = part.bin.pieces[0].first if number == 0 else boundary
        if part.bin.is_part and boundary >= part.bin.pieces[0].stop:
            empty.append(part)
        elif part.summary.first == boundary:
            kept.append(part)
            boundary = part.summary.end
        else:
            return Settlement(kept=tuple(kept), empty=tuple(empty), again=(part.bin.begin_at(boundary),))
    return Settlement(kept=tuple(kept), empty=tuple(empty), again=())


def _by_object(indexed: Iterable[IndexedBin]) -> Iterator[list[IndexedBin]]:
    """Bins that begin in the same object: its parts, or the one file that has it whole."""
    for _, parts in groupby(indexed, key=lambda each: each.bin.pieces[0].object_order):
        yield list(parts)
