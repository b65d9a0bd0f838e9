"""Parts by transaction: what each transaction holds, in any order of its parts."""

import numpy as np

from spark_jobs.kernels.partition_transactions import NO_MARKER
from spark_jobs.pipeline.resolve.parts import PART, GroupedParts


def _grouped(count: int, *parts: tuple[int, dict[str, int]]) -> GroupedParts:
    rows = np.zeros(len(parts), dtype=PART)
    rows["marker_type"] = NO_MARKER
    for place, (_, values) in enumerate(parts):
        for name, number in values.items():
            rows[name][place] = number
    return GroupedParts(
        rows=rows, transaction=np.array([number for number, _ in parts], dtype=np.int32), count=count
    )


PARTS = _grouped(
    3,
    (0, {"partition": 2, "first_offset": 70, "batches": 1, "records": 5, "first_timestamp": 9}),
    (0, {"partition": 1, "first_offset": 30, "batches": 2, "records": 6, "first_timestamp": 8}),
    (0, {"partition": 2, "first_offset": 40, "batches": 3, "records": 7, "marker_type": 1}),
    (2, {"partition": 1, "first_offset": 90, "records": 8, "marker_type": 0, "marker_timestamp": 4}),
)


def test_a_transaction_begins_on_each_partition_with_its_first_part_there_by_partition() -> None:
    beginnings, starts = PARTS.beginnings()
    assert beginnings[["partition", "first_offset"]].tolist() == [(1, 30), (2, 70)]
    assert starts.to_pylist() == [0, 2, 2, 2]


def test_only_parts_with_data_count_and_a_transaction_may_have_none() -> None:
    assert PARTS.total("batches").tolist() == [6, 0, 0]
    assert PARTS.total("records").tolist() == [18, 0, 0]


def test_the_least_of_no_parts_is_unknown() -> None:
    assert PARTS.least("first_timestamp", PARTS.has_data).to_pylist() == [0, None, None]
    assert PARTS.least("marker_timestamp", PARTS.has_marker).to_pylist() == [0, None, 4]


def test_a_transaction_is_chosen_by_any_of_its_parts() -> None:
    assert PARTS.any_of(PARTS.has_marker).tolist() == [True, False, True]
    assert PARTS.any_of(~PARTS.has_marker).tolist() == [True, False, False]


def test_a_slice_has_the_parts_of_its_transactions_counted_anew() -> None:
    slices = [PARTS.of(slice(0, 1)), PARTS.of(slice(1, 5))]
    assert [each.transaction.tolist() for each in slices] == [[0, 0, 0], [1]]
    assert [each.total("batches").tolist() for each in slices] == [[6], [0, 0]]


def test_without_transactions_there_is_nothing() -> None:
    nothing = _grouped(0)
    beginnings, starts = nothing.beginnings()
    assert (len(beginnings), starts.to_pylist()) == (0, [0])
    assert nothing.least("first_timestamp", nothing.has_data).to_pylist() == []
