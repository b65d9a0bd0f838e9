"""Files of a topic's table: every engine reads the same rows, and finds by bounds what a filter asks for."""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from spark_jobs.execution.spark import Spark
from spark_jobs.lake.file_store import FileStore
from spark_jobs.pipeline.materialise import table_files
from spark_jobs.pipeline.materialise.job import TaskContext
from spark_jobs.pipeline.materialise.table_files import TableFiles
from spark_jobs.tables import materialise
from spark_jobs.tables.contract import Column
from spark_jobs.tables.materialise import as_written, record_options, records_contract
from tests.pipeline.materialise.logs import settings_at

DAY = date(2024, 5, 1)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
OF_VALUES = (
    Column("amount", pa.float64(), "a number", nullable=True),
    Column("is_paid", pa.bool_(), "a flag", nullable=True),
    Column("city", pa.string(), "a text", nullable=True),
)
CONTRACT = records_contract("orders", "orders", OF_VALUES)
SCHEMA = as_written(CONTRACT.schema)
PLAIN_SCHEMA = pa.schema([field.remove_metadata() for field in CONTRACT.schema])
"""What readers get."""
VECTORIZED = "spark.sql.parquet.enableVectorizedReader"


def some_rows(first: int, count: int) -> pa.Table:
    chance = random.Random(first)
    rows = [
        {
            "partition": 3,
            "offset": 2**40 + row,
            "timestamp": chance.choice(
                (None, datetime(2024, 5, 1, tzinfo=UTC) + timedelta(milliseconds=row))
            ),
            "timestamp_type": chance.choice(("CreateTime", "LogAppendTime")),
            "timestamp_out_of_range": chance.choice((None, None, 2**63 - 1, -(2**63))),
            "key": chance.choice((None, b"", b"k%d" % (row % 7))),
            "value": chance.choice((None, chance.randbytes(chance.randrange(60)))),
            "headers": [{"key": f"h{each}", "value": chance.choice((None, b"v"))} for each in range(row % 3)],
            "producer_id": row // 100,
            "producer_epoch": row // 50 % 3,
            "sequence": (2**31 - 150 + row) % 2**31,
            "transactional_id": chance.choice((None, "billing", "shipping")),
            "partition_leader_epoch": -1,
            "run_date": DAY,
            "amount": chance.choice((None, row / 3)),
            "is_paid": chance.choice((None, True, False)),
            "city": chance.choice((None, "", "Malmö")),
        }
        for row in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


TABLES = [some_rows(first, count) for first, count in ((0, 150), (150, 1), (151, 420), (571, 60))]
TOGETHER = pa.concat_tables(TABLES).cast(PLAIN_SCHEMA)


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows fill pages and row groups here."""
    monkeypatch.setattr(table_files, "GROUP_BYTES", 15_000)
    monkeypatch.setattr(materialise, "PAGE_ROWS", 40)


def write(place: Path, tables: list[pa.Table] = TABLES, more: str = "") -> list[Path]:
    """The paths of the files that `tables` fill."""
    settings = settings_at(place, more)
    lake = FileStore(settings.lake)
    context = TaskContext(lake=lake, folder="runs/r/materialise", settings=settings, run_date=DAY)
    with TableFiles(context, lambda part: f"{part}.parquet", SCHEMA, record_options(SCHEMA)) as output:
        for table in tables:
            output.add(table)
        files = output.finish()
    assert sum(file.rows for file in files) == sum(table.num_rows for table in tables)
    return [Path(settings.lake, "runs/r/materialise", file.output.path) for file in files]


def test_arrow_reads_the_same_rows_from_checked_pages(tmp_path: Path) -> None:
    [path] = write(tmp_path)
    found = pq.ParquetFile(path, page_checksum_verification=True).read()

    assert found.schema.equals(PLAIN_SCHEMA)
    assert found.equals(TOGETHER)


def test_duckdb_reads_the_same_rows(tmp_path: Path) -> None:
    [path] = write(tmp_path)
    with duckdb.connect() as connection:
        found = connection.sql(f"SELECT * FROM '{path}'").to_arrow_table()

    assert found.to_pylist() == TOGETHER.to_pylist()


def test_bounds_and_nulls_are_those_of_the_rows_of_each_group(tmp_path: Path) -> None:
    [path] = write(tmp_path)
    reported, first = pq.read_metadata(path), 0
    assert reported.num_row_groups > 1
    for group in map(reported.row_group, range(reported.num_row_groups)):
        rows = TOGETHER.slice(first, group.num_rows)
        first += group.num_rows
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema.startswith("headers."):
                continue
            values = rows.column(column.path_in_schema)
            bounds = pc.min_max(values)
            assert _reported(column) == (values.null_count, bounds["min"].as_py(), bounds["max"].as_py())
    assert first == TOGETHER.num_rows


def _reported(column: pq.ColumnChunkMetaData) -> tuple[Any, ...]:
    """Nulls and bounds."""
    reported = column.statistics
    assert reported is not None
    return (reported.null_count, *((reported.min, reported.max) if reported.has_min_max else (None, None)))


def test_every_column_has_a_page_index(tmp_path: Path) -> None:
    [path] = write(tmp_path)
    reported = pq.read_metadata(path)
    columns = [reported.row_group(0).column(number) for number in range(reported.num_columns)]

    assert all(column.has_offset_index and column.has_column_index for column in columns)


@pytest.mark.parametrize("seed", range(5))
def test_a_changed_byte_of_a_page_is_noticed(tmp_path: Path, seed: int) -> None:
    [path] = write(tmp_path)
    reported = pq.read_metadata(path)
    values = reported.row_group(seed % reported.num_row_groups).column(reported.schema.names.index("value"))
    changed = bytearray(path.read_bytes())
    end = values.data_page_offset + values.total_compressed_size
    changed[random.Random(seed).randrange(end - 200, end)] ^= 0x10

    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(pa.BufferReader(bytes(changed)), page_checksum_verification=True).read()


def test_the_same_rows_are_the_same_bytes(tmp_path: Path) -> None:
    [[first], [second]] = [write(tmp_path / name) for name in ("a", "b")]

    assert first.read_bytes() == second.read_bytes()


def test_a_file_ends_with_the_row_group_that_makes_it_large_enough(tmp_path: Path) -> None:
    column = SCHEMA.get_field_index("value")
    tables = [
        TABLES[1].set_column(
            column, SCHEMA.field("value"), pa.array([random.Random(n).randbytes(700_000)], pa.binary())
        )
        for n in range(5)
    ]
    paths = write(tmp_path, tables, "limits: {file_bytes: 1MiB}\n")

    assert [pq.read_metadata(path).num_rows for path in paths] == [2, 2, 1]


@pytest.fixture(params=["true", "false"])
def reading(spark: Spark, request: pytest.FixtureRequest) -> Iterator[Spark]:
    """With the reader for many rows at once, and with the one for single rows."""
    spark.session.conf.set(VECTORIZED, request.param)
    yield spark
    spark.session.conf.unset(VECTORIZED)


def frame_of(spark: Spark, path: Path) -> DataFrame:
    return spark.session.read.parquet(str(path))


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    """Spark gives timestamps in the time zone of this machine, without naming it."""
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.items()
    }


def test_spark_reads_the_same_rows(reading: Spark, tmp_path: Path) -> None:
    [path] = write(tmp_path)
    found = frame_of(reading, path).collect()

    assert [_in_utc(row.asDict(recursive=True)) for row in found] == TOGETHER.to_pylist()


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("producer_id BETWEEN 1 AND 2", lambda row: 1 <= row["producer_id"] <= 2),
        (f"offset = {2**40 + 499}", lambda row: row["offset"] == 2**40 + 499),
        ("key = CAST('k5' AS BINARY)", lambda row: row["key"] == b"k5"),
        ("value IS NULL AND sequence < 200", lambda row: row["value"] is None and row["sequence"] < 200),
        ("city = 'Malmö' AND NOT is_paid", lambda row: row["city"] == "Malmö" and row["is_paid"] is False),
    ],
)
def test_spark_finds_what_a_filter_asks_for(
    reading: Spark, tmp_path: Path, condition: str, chosen: Callable[[dict[str, Any]], bool]
) -> None:
    [path] = write(tmp_path)
    found = frame_of(reading, path).where(condition).collect()

    expected = [row["offset"] for row in TOGETHER.to_pylist() if chosen(row)]
    assert [row.offset for row in found] == expected
    assert 0 < len(expected) < TOGETHER.num_rows
