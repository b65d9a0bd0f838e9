"""Times of published tables are timestamps, and what is no time is null."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from spark_jobs.tables.contract import LAST_TIMESTAMP_MS, TIMESTAMP, as_published
from spark_jobs.tables.publish import OWN_TABLES

TIMES = {
    "batches": {"base_timestamp", "max_timestamp"},
    "producers": {"last_timestamp"},
    "transactions": {"start_timestamp", "end_timestamp"},
    "consumer_offsets": {"commit_timestamp", "expire_timestamp"},
}


def test_every_time_is_a_timestamp() -> None:
    found = {
        name: {column.name for column in contract.columns if column.type == TIMESTAMP}
        for name, contract in OWN_TABLES.items()
    }
    assert {name: found[name] & names for name, names in TIMES.items()} == TIMES
    assert not [
        column.name
        for contract in OWN_TABLES.values()
        for column in contract.columns
        if column.name.endswith("timestamp") and column.type != TIMESTAMP
    ]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (1_700_000_000_123, datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-1, None),
        (None, None),
        (LAST_TIMESTAMP_MS, datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)),
        (LAST_TIMESTAMP_MS + 1, None),
        (2**63 - 1, None),
        (-(2**63), None),
    ],
)
def test_times_in_ms_become_timestamps(given: int | None, found: datetime | None) -> None:
    table = pa.table({"other": [7, 7], "at": pa.array([5, given], pa.int64())})
    schema = pa.schema({"at": TIMESTAMP, "other": pa.int64()})
    assert as_published(table, schema).to_pylist() == [
        {"at": datetime(1970, 1, 1, 0, 0, 0, 5000, UTC), "other": 7},
        {"at": found, "other": 7},
    ]
