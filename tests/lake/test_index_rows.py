"""Index files as chunks: all rows in order, small files together, no chunk of many files' rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.lake import index_rows
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.index_rows import iter_index, labels
from spark_jobs.lake.parquet_file import put_table


@pytest.mark.parametrize(
    ("files", "chunks"),
    [
        ([], []),
        ([3], [3]),
        ([3, 4], [7]),
        ([9, 1, 2], [10, 2]),
        ([30, 30, 1], [30, 30, 1]),
        ([1, 30, 0, 2], [31, 2]),
    ],
)
def test_files_of_few_rows_come_together(
    tmp_path: Path, files: list[int], chunks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_rows, "FEWEST_ROWS", 10)
    lake, numbers = FileStore(str(tmp_path)), iter(range(100))
    for place, rows in enumerate(files):
        table = pa.table({"position": pa.array([next(numbers) for _ in range(rows)], pa.int64())})
        put_table(lake, "index", f"{place}", table)

    found = list(iter_index(lake, [f"index/{place}" for place in range(len(files))], columns=["position"]))

    assert [rows.num_rows for rows in found] == chunks
    assert [number for rows in found for number in rows.column(0).to_pylist()] == list(range(sum(files)))


def test_names_that_come_twice_are_one_label() -> None:
    found = labels(np.array([2, 0, 1, 1], dtype=np.int8), ["none", "late", "none"])
    assert found.cast(pa.string()).to_pylist() == ["none", "none", "late", "late"]
    assert found.dictionary.to_pylist() == ["none", "late"]
