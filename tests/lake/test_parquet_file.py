"""Tables in any store: written in parts, visible at once, read in parts."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from spark_jobs.lake import parquet_file
from spark_jobs.lake.errors import ObjectMissing
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import (
    ObjectFile,
    ParquetOutput,
    greatest,
    iter_row_range,
    iter_rows,
    put_table,
    read_table,
)
from spark_jobs.lake.s3_store import S3Store

TABLE = pa.table({"number": pa.array(range(1000), pa.int64()), "name": [f"n{each}" for each in range(1000)]})


def test_a_table_comes_back_as_it_was(store: ObjectStore) -> None:
    put_table(store, "folder", "some/table.parquet", TABLE)

    assert read_table(store, "folder/some/table.parquet").equals(TABLE)


def test_an_output_says_its_size_and_digest(store: ObjectStore) -> None:
    output = put_table(store, "folder", "table.parquet", TABLE)

    data = store.read("folder/table.parquet")
    assert (output.path, output.size) == ("table.parquet", len(data))
    assert output.digest == hashlib.sha256(data).hexdigest()


def test_rows_come_in_order_and_in_bounded_parts(store: ObjectStore) -> None:
    with ParquetOutput(store, TABLE.schema) as output:
        for start in range(0, 1000, 300):
            output.write(TABLE.slice(start, 300))
        output.finish("folder", "table.parquet")

    parts = list(iter_rows(store, "folder/table.parquet", columns=["number"], rows=70))

    assert max(part.num_rows for part in parts) <= 70
    assert pa.Table.from_batches(parts).equals(TABLE.select(["number"]))


@pytest.mark.parametrize("first", [0, 1, 69, 70, 150, 299, 300, 999])
@pytest.mark.parametrize("count", [0, 1, 70, 71, 350, 5000])
def test_a_range_of_rows_is_those_rows_wherever_groups_and_parts_begin(
    first: int, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_file, "ROWS_AT_A_TIME", 70)
    store = FileStore(str(tmp_path))
    with ParquetOutput(store, TABLE.schema) as output:
        for start in range(0, 1000, 300):
            output.write(TABLE.slice(start, 300))
        output.finish("folder", "table.parquet")

    parts = list(iter_row_range(store, "folder/table.parquet", first, first + count))

    assert [part.num_rows for part in parts if part.num_rows <= 0] == []
    assert pa.Table.from_batches(parts, TABLE.schema).equals(TABLE.slice(first, count))


def test_nothing_is_visible_before_it_is_finished_and_nothing_remains_if_it_never_is(
    store: ObjectStore,
) -> None:
    with ParquetOutput(store, TABLE.schema) as output:
        output.write(TABLE)

    assert list(store.list()) == []
    assert list(store.scratch().iterdir()) == []


def test_forgotten_rows_are_not_written(store: ObjectStore) -> None:
    with ParquetOutput(store, TABLE.schema) as output:
        output.write(TABLE)
        output.prune()
        output.write(TABLE.slice(0, 3))
        output.finish("folder", "table.parquet")

    assert read_table(store, "folder/table.parquet").equals(TABLE.slice(0, 3))


def test_a_table_without_rows_is_a_file(store: ObjectStore) -> None:
    with ParquetOutput(store, TABLE.schema) as output:
        output.finish("folder", "table.parquet")

    assert read_table(store, "folder/table.parquet").equals(TABLE.slice(0, 0))


def test_an_object_that_is_not_there_is_missing(s3_store: S3Store) -> None:
    with pytest.raises(ObjectMissing):
        read_table(s3_store, "folder/table.parquet")


def test_a_stored_file_reads_from_any_position(store: ObjectStore) -> None:
    store.put("key", b"0123456789")
    file = ObjectFile(store, "key")

    assert file.read(3) == b"012"
    assert (file.seek(-4, 2), file.read()) == (6, b"6789")
    assert (file.seek(2), file.seek(3, 1), file.read(100), file.read(1)) == (2, 5, b"56789", b"")
    assert file.seek(20) == 20
    assert file.read() == b""


def test_the_greatest_value_of_a_column_is_that_of_all_row_groups(store: ObjectStore) -> None:
    schema = pa.schema([("number", pa.int64()), ("time", pa.timestamp("us", "UTC"))])
    with ParquetOutput(store, schema) as output:
        for numbers in ([3, None], [None, None], [7, 5], []):
            output.write(pa.table({"number": numbers, "time": numbers}, schema))
        output.finish("folder", "table.parquet")

    assert greatest(store, "folder/table.parquet", "number") == 7
    time = greatest(store, "folder/table.parquet", "time")
    assert time == datetime(1970, 1, 1, microsecond=7, tzinfo=UTC)


def test_a_column_without_any_value_has_no_greatest(store: ObjectStore) -> None:
    nothing = pa.table({"number": pa.array([None, None], pa.int64())})
    put_table(store, "folder", "nulls.parquet", nothing)
    put_table(store, "folder", "empty.parquet", nothing.slice(0, 0))

    assert greatest(store, "folder/nulls.parquet", "number") is None
    assert greatest(store, "folder/empty.parquet", "number") is None


def test_the_greatest_value_is_found_behind_columns_of_several_leaves(lake: FileStore) -> None:
    pair = pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.int64())])
    nested = pa.array([[{"a": 1, "b": 9}]], pa.list_(pair))
    put_table(lake, "folder", "nested.parquet", pa.table({"nested": nested, "number": [5]}))

    assert greatest(lake, "folder/nested.parquet", "number") == 5
