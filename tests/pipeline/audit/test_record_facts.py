from typing import Any

import numpy as np
import pytest

from spark_jobs.kernels.memory import read_only
from spark_jobs.kernels.record_rows import RecordColumns
from spark_jobs.pipeline.audit.columns import TransactionOffsets
from spark_jobs.pipeline.audit.job import RecordChecks
from spark_jobs.pipeline.audit.worker import RecordFacts
from spark_jobs.tables.materialise import RECORDS

BOUNDS = RecordChecks(earliest_ms=1000, latest_ms=2000, key_sample=0)
OUTCOMES = TransactionOffsets(
    first_offset=np.array([10, 12, 30, 50]),
    last_offset=np.array([20, 18, 39, 59]),
    producer_id=np.array([1, 2, 1, 1]),
    is_committed=np.array([False, True, False, True]),
)


def _rows(*rows: dict[str, int]) -> RecordColumns:
    plain = {
        "partition": 0,
        "offset": 0,
        "timestamp": 1_500_000,
        "producer_id": -1,
        "producer_epoch": -1,
        "sequence": -1,
    }
    return RecordColumns._make(
        read_only([(plain | row)[name] for row in rows], _types()[name]) for name in RecordColumns._fields
    )


def _types() -> dict[str, Any]:
    kinds = {field.name: field.type for field in RECORDS.schema}
    return {name: kinds[name].to_pandas_dtype() for name in RecordColumns._fields if name != "timestamp"} | {
        "timestamp": np.int64
    }


def _facts(*parts: RecordColumns) -> Any:
    facts = RecordFacts(OUTCOMES, BOUNDS)
    for part in parts:
        facts.add(part)
    return facts.facts()


def test_rows_in_order_have_nothing_wrong() -> None:
    facts = _facts(_rows({"offset": 0}, {"offset": 5}), _rows({"offset": 6}))
    assert facts["rows"] == 3
    assert not any(count for name, count in facts.items() if name != "rows")


@pytest.mark.parametrize("offset", [5, 4, 0])
def test_an_offset_that_does_not_grow_is_disorder(offset: int) -> None:
    assert _facts(_rows({"offset": 5}, {"offset": offset}))["disordered_rows"] == 1
    assert _facts(_rows({"offset": 5}), _rows({"offset": offset}))["disordered_rows"] == 1


@pytest.mark.parametrize(
    ("timestamp", "strange"),
    [(999_000, 1), (1_000_000, 0), (2_000_000, 0), (2_001_000, 1), (-1, 0), (-2000, 1), (2**63 - 1, 1)],
)
def test_timestamps_are_within_bounds_or_absent(timestamp: int, strange: int) -> None:
    assert _facts(_rows({"timestamp": timestamp}))["strange_timestamps"] == strange


@pytest.mark.parametrize(
    ("producer", "offset", "rows"),
    [
        (1, 9, 0),
        (1, 10, 1),
        (1, 20, 1),
        (1, 21, 0),
        (1, 35, 1),
        (1, 55, 0),
        (2, 15, 0),
        (3, 15, 0),
        (-1, 15, 0),
    ],
)
def test_a_row_within_an_uncommitted_transaction_of_its_producer_is_found(
    producer: int, offset: int, rows: int
) -> None:
    row = {"offset": offset, "producer_id": producer, "producer_epoch": 0, "sequence": 0}
    assert _facts(_rows(row))["uncommitted_rows"] == rows


def test_and_so_are_many() -> None:
    rows = [{"offset": 8 + n, "producer_id": 1, "producer_epoch": 0, "sequence": n} for n in range(6)]
    assert _facts(_rows(*rows))["uncommitted_rows"] == 4


def test_the_same_record_twice_under_different_offsets_is_found() -> None:
    row = {"producer_id": 7, "producer_epoch": 0, "sequence": 3}
    assert _facts(_rows(row | {"offset": 1}), _rows(row | {"offset": 2}))["repeated_sequences"] == 1
