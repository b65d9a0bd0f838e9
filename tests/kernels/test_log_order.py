"""Misplaced batches: cases by hand, the kernel against its pure twin, changed bits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.log.log_order import OffsetSpan, misplaced, sentence
from spark_jobs.kernels.copies import OrderColumns, OrderWatch, SegmentColumns, find_misplaced

FAR = 2**40
BITS = range(64)
INT64 = 2**63


def span(base_offset: int, count: int = 1) -> OffsetSpan:
    return OffsetSpan(base_offset=base_offset, count=count)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderCase:
    title: str
    spans: tuple[OffsetSpan, ...]
    start: int = 0
    end: int
    misplaced: tuple[int, ...] = ()


CASES = (
    OrderCase(title="nothing", spans=(), end=0),
    OrderCase(title="no hole", spans=(span(0, 3), span(3, 2), span(5)), end=6),
    OrderCase(title="holes of compaction", spans=(span(4, 3), span(9, 2), span(30)), end=70),
    OrderCase(title="one far too high", spans=(span(0, 3), span(FAR, 2), span(5)), end=6, misplaced=(1,)),
    OrderCase(title="one too low", spans=(span(0, 3), span(1, 2), span(5)), end=6, misplaced=(1,)),
    OrderCase(
        title="a batch of one that claims its follower's offset, where only room distinguishes them",
        spans=(span(5), span(7), span(7), span(8)),
        start=5,
        end=9,
        misplaced=(1,),
    ),
    OrderCase(
        title="the first, by the segment's name", spans=(span(1, 3), span(3, 2)), end=5, misplaced=(0,)
    ),
    OrderCase(title="the last, by the next name", spans=(span(0, 3), span(FAR, 2)), end=5, misplaced=(1,)),
    OrderCase(title="the only one, too high", spans=(span(9, 3),), end=3, misplaced=(0,)),
    OrderCase(title="the only one, too low", spans=(span(2, 3),), start=4, end=7, misplaced=(0,)),
    OrderCase(title="below zero", spans=(span(0), span(-INT64), span(2)), end=3, misplaced=(1,)),
    OrderCase(
        title="the last of a compacted segment, beyond the next name",
        spans=(span(4, 3), span(9, 2), span(90)),
        end=70,
        misplaced=(2,),
    ),
    OrderCase(
        title="two between holes that exclude each other: both are misplaced",
        spans=(span(5, 5), span(28, 5), span(30, 5), span(50)),
        end=70,
        misplaced=(1, 2),
    ),
    OrderCase(title="two side by side", spans=(*map(span, (0, 77, 78, 3, 4)),), end=5, misplaced=(1, 2)),
    OrderCase(title="a name that contradicts every batch", spans=(span(0, 3), span(3, 2)), start=1, end=5),
    OrderCase(title="the content of a later segment", spans=(span(50, 3), span(53, 2)), end=5),
)


def with_kernel(spans: tuple[OffsetSpan, ...], start: int, end: int) -> list[tuple[int, ...]]:
    found = find_misplaced(
        np.array([each.base_offset for each in spans], dtype=np.int64),
        np.array([each.count for each in spans], dtype=np.int64),
        start=start,
        end=end,
    )
    return list(zip(*(column.tolist() for column in found), strict=True))


def with_twin(spans: tuple[OffsetSpan, ...], start: int, end: int) -> list[tuple[int, ...]]:
    return [(each.index, each.earliest, each.latest) for each in misplaced(spans, start=start, end=end)]


Find = Callable[[tuple[OffsetSpan, ...], int, int], list[tuple[int, ...]]]


@pytest.mark.parametrize("find", [with_kernel, with_twin])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_case(case: OrderCase, find: Find) -> None:
    assert tuple(place for place, *_ in find(case.spans, case.start, case.end)) == case.misplaced


SPANS = st.lists(st.builds(span, st.integers(-2, 14), st.integers(1, 3)), max_size=10).map(tuple)


@given(SPANS, st.integers(0, 4), st.integers(0, 24))
def test_the_kernel_finds_what_its_pure_twin_finds(
    spans: tuple[OffsetSpan, ...], start: int, end: int
) -> None:
    assert with_kernel(spans, start, end) == with_twin(spans, start, end)


def watched(spans: tuple[OffsetSpan, ...], start: int, end: int, cuts: list[int]) -> bool:
    watch = OrderWatch(SegmentColumns(np.array([7]), np.array([start]), np.array([end]), np.array([False])))
    parts = pairwise([0, *sorted(min(cut, len(spans)) for cut in cuts), len(spans)])
    return all(watch.is_in_order(columns(spans[a:b]), np.zeros(b - a, dtype=np.bool_)) for a, b in parts)


def columns(spans: tuple[OffsetSpan, ...]) -> OrderColumns:
    return OrderColumns(
        object_order=np.full(len(spans), 7, dtype=np.int32),
        base_offset=np.array([each.base_offset for each in spans], dtype=np.int64),
        last_offset_delta=np.array([each.count - 1 for each in spans], dtype=np.int32),
    )


@given(SPANS, st.integers(0, 4), st.integers(0, 24), st.lists(st.integers(0, 10), max_size=2))
def test_what_the_watch_lets_pass_is_in_order(
    spans: tuple[OffsetSpan, ...], start: int, end: int, cuts: list[int]
) -> None:
    if watched(spans, start, end, cuts):
        assert not misplaced(spans, start=start, end=end)
    else:
        assert misplaced(spans, start=start, end=end) or end < start + sum(each.count for each in spans)


COUNTS = st.lists(st.integers(1, 5), min_size=1, max_size=6)


@given(COUNTS, st.integers(0, 2**41), st.data())
def test_every_changed_bit_is_found_where_no_offset_is_missing(
    counts: list[int], start: int, data: st.DataObject
) -> None:
    ends = list(accumulate(counts, initial=start))
    spans = tuple(map(span, ends, counts))
    place, bit = data.draw(st.integers(0, len(counts) - 1)), data.draw(st.sampled_from(BITS))
    changed = list(spans)
    changed[place] = replace(spans[place], base_offset=flipped(spans[place].base_offset, bit))
    assert not watched(tuple(changed), start, ends[-1], [1])
    assert with_kernel(tuple(changed), start, ends[-1]) == [(place, ends[place], ends[place])]


@given(COUNTS, st.lists(st.integers(0, 9), min_size=7, max_size=7), st.integers(0, 2**41), st.data())
def test_a_changed_bit_in_a_compacted_segment_is_found_unless_it_stays_in_its_hole(
    counts: list[int], holes: list[int], start: int, data: st.DataObject
) -> None:
    spans, end = [], start
    for count, hole in zip(counts, holes, strict=False):
        spans.append(span(end + hole, count))
        end += hole + count
    end += holes[-1]
    place, bit = data.draw(st.integers(0, len(spans) - 1)), data.draw(st.sampled_from(BITS))
    claimed = flipped(spans[place].base_offset, bit)
    borders = [start, *(each.base_offset + each.count for each in spans)]
    follower = [*(each.base_offset for each in spans), end][place + 1]
    stays = borders[place] <= claimed <= follower - spans[place].count
    spans[place] = span(claimed, spans[place].count)
    found = [index for index, *_ in with_kernel(tuple(spans), start, end)]
    assert found == [] if stays else place in found


def flipped(offset: int, bit: int) -> int:
    changed = offset ^ 1 << bit
    return changed - 2 * INT64 if changed >= INT64 else changed


def test_the_sentence_says_what_there_is_room_for() -> None:
    assert sentence(base_offset=9, earliest=3, latest=3) == (
        "misplaced batch: expected base offset 3, found 9"
    )
    assert "expected base offset 3 to 5, found 9" in sentence(base_offset=9, earliest=3, latest=5)
    assert "exclude each other" in sentence(base_offset=4, earliest=3, latest=5)
