"""The counts of a topic's rows equal those of a plain implementation of the rules."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.producers.sequence import MAX_SEQUENCE
from spark_jobs.kernels.memory import read_only
from spark_jobs.kernels.record_rows import OffsetRanges, RecordColumns, RowsSeen, count_within, look_at

INT64 = st.integers(-(2**63), 2**63 - 1)
FEW = st.integers(-2, 6)
Row = tuple[int, int, int, int, int]
"""Offset, timestamp, producer id, producer epoch and sequence."""
PRODUCERS = st.tuples(
    st.integers(-1, 2),
    st.integers(-1, 1),
    st.integers(-1, 4) | st.sampled_from((MAX_SEQUENCE - 1, MAX_SEQUENCE)),
)
NO_PRODUCER = st.just((-1, -1, -1))
ROWS = st.lists(
    st.tuples(FEW | INT64, FEW | INT64, PRODUCERS | NO_PRODUCER).map(lambda row: (*row[:2], *row[2])),
    min_size=1,
    max_size=40,
)
Range = tuple[int, int, int]
"""Producer id, first and last offset."""
RANGES = st.lists(st.tuples(FEW, st.integers(0, 20), st.integers(0, 4)), max_size=12).map(
    lambda found: [(producer, first, first + more) for producer, first, more in found]
)


def _look_at(rows: list[Row], highest: int = -1, earliest_ms: int = 0, latest_ms: int = 0) -> RowsSeen:
    kinds = (np.int32, np.int64, np.int64, np.int64, np.int32, np.int32)
    columns = RecordColumns._make(map(read_only, ([0] * len(rows), *zip(*rows, strict=True)), kinds))
    return look_at(columns, highest, earliest_ms=earliest_ms, latest_ms=latest_ms)


@given(ROWS, FEW | INT64)
def test_an_offset_follows_the_row_before_and_the_first_one_all_parts_before(
    rows: list[Row], highest: int
) -> None:
    offsets = [offset for offset, *_ in rows]
    before = [highest, *offsets[:-1]]
    expected = sum(one >= other for one, other in zip(before, offsets, strict=True))
    seen = _look_at(rows, highest)
    assert (seen.disordered, seen.highest) == (expected, max(highest, *offsets))


@given(ROWS, FEW, FEW | INT64)
def test_a_timestamp_is_within_bounds_or_absent(rows: list[Row], earliest: int, latest: int) -> None:
    """Bounds are in milliseconds, timestamps in microseconds."""
    expected = sum(at != -1 and not earliest * 1000 <= at <= latest * 1000 for _, at, *_ in rows)
    assert _look_at(rows, earliest_ms=earliest, latest_ms=latest).strange == expected


@given(ROWS)
def test_a_span_is_consecutive_sequences_of_one_producer_and_epoch(rows: list[Row]) -> None:
    seen = _look_at(rows)
    assert list(zip(seen.first.tolist(), seen.last.tolist(), strict=True)) == _spans(rows)


def _spans(rows: list[Row]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for place, (_, _, producer, epoch, sequence) in enumerate(rows):
        if producer < 0:
            continue
        if spans and rows[spans[-1][1]][2:] == (producer, epoch, sequence - 1):
            spans[-1] = (spans[-1][0], place)
        else:
            spans.append((place, place))
    return spans


@given(RANGES, RANGES)
def test_offsets_are_within_the_last_transaction_that_their_producer_began_before_they_end(
    spans: list[Range], transactions: list[Range]
) -> None:
    found = count_within(_ranges(spans), _ranges(sorted(transactions, key=lambda each: each[:2])))
    assert found == sum(_common(span, transactions) for span in spans)


def _common(span: Range, transactions: list[Range]) -> int:
    producer, first, last = span
    begun = [each for each in transactions if each[0] == producer and each[1] <= last]
    if not begun:
        return 0
    _, begin, end = max(reversed(begun), key=lambda each: each[1])
    return len(range(max(first, begin), min(last, end) + 1))


def _ranges(ranges: list[Range]) -> OffsetRanges:
    return OffsetRanges._make(np.array(ranges, dtype=np.int64).reshape(-1, 3).T.copy())
