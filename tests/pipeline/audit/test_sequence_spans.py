from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kernels.memory import read_only
from spark_jobs.kernels.record_rows import RecordColumns, look_at
from spark_jobs.pipeline.audit import sequences as sequence_spans
from spark_jobs.pipeline.audit.sequences import SequenceSpans, Spans, spans_of

ROWS = st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 1), st.integers(0, 6)), min_size=1, max_size=30)


def _spans(rows: list[tuple[int, int, int]]) -> Spans:
    producer_id, producer_epoch, sequence = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    offset = read_only(np.arange(len(rows)), np.int64)
    columns = RecordColumns(
        partition=read_only(np.zeros(len(rows)), np.int32),
        offset=offset,
        timestamp=offset,
        producer_id=read_only(producer_id, np.int64),
        producer_epoch=read_only(producer_epoch, np.int32),
        sequence=read_only(sequence, np.int32),
    )
    return spans_of(columns, look_at(columns, -1, earliest_ms=0, latest_ms=0))


def test_consecutive_rows_of_a_producer_are_one_span() -> None:
    spans = _spans([(1, 0, 5), (1, 0, 6), (2, 0, 7), (2, 1, 8), (-1, -1, -1), (2, 1, 9), (2, 1, 11)])
    assert list(zip(*(column.tolist() for column in spans), strict=True)) == [
        (1, 0, 5, 6, 0, 1),
        (2, 0, 7, 7, 2, 2),
        (2, 1, 8, 9, 3, 5),
        (2, 1, 11, 11, 6, 6),
    ]


@given(st.lists(ROWS, max_size=4), st.booleans())
def test_a_sequence_is_repeated_if_and_only_if_it_came_before(
    parts: list[list[tuple[int, int, int]]], join_often: bool
) -> None:
    found = SequenceSpans()
    usual = sequence_spans.SPANS_AT_A_TIME
    sequence_spans.SPANS_AT_A_TIME = 1 if join_often else usual
    try:
        for part in parts:
            found.add(_spans(part))
    finally:
        sequence_spans.SPANS_AT_A_TIME = usual
    counted = Counter(row for part in parts for row in part if row[0] >= 0)
    assert (found.repeated > 0) == any(count > 1 for count in counted.values())


def test_a_repeated_sequence_counts_as_often_as_it_is_too_much() -> None:
    found = SequenceSpans()
    found.add(_spans([(1, 0, 0), (1, 0, 1), (1, 0, 2)]))
    found.add(_spans([(1, 0, 1), (1, 0, 2), (1, 0, 3)]))
    assert found.repeated == 2
