"""Rows as the audit reads them from files."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.pipeline.audit.keys import iter_records
from spark_jobs.reading.record_columns import Timestamps
from spark_jobs.tables.materialise import RECORDS


@pytest.mark.parametrize(
    ("given", "micros"),
    [
        ([1000, 2000], [1_000_000, 2_000_000]),
        ([1000, -1], [1_000_000, -1]),
        ([2**62, -(2**62), -1, -2], [2**63 - 1, 2**63 - 1, -1, -2000]),
    ],
)
def test_timestamps_are_microseconds_and_those_out_of_range_are_very_late(
    given: list[int], micros: list[int], tmp_path: Path
) -> None:
    rows = len(given)
    columns: dict[str, Any] = Timestamps.of(np.array(given, dtype=np.int64)).columns()
    columns |= {"partition": [3] * rows, "offset": range(rows), "sequence": [-1] * rows}
    columns |= {"producer_id": [-1] * rows, "producer_epoch": [-1] * rows}
    fields = [field for field in RECORDS.schema if field.name in columns]
    table = pa.table({field.name: columns[field.name] for field in fields}, schema=pa.schema(fields))
    lake = FileStore(str(tmp_path))
    put_table(lake, "rows", "some.parquet", table)
    [(partition, found)] = iter_records(lake, "rows/some.parquet", 0, 9)
    assert (partition, found.timestamp.tolist()) == (3, micros)
