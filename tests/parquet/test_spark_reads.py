"""Spark's two readers of Parquet get the same rows, and find the pages that a filter needs."""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from spark_jobs.spark_session import Spark
from tests.parquet.tables import NUMBERS, PLAIN_SCHEMA, SCHEMA, mixed, numbers, runs, written

VECTORIZED = "spark.sql.parquet.enableVectorizedReader"


def some_rows(count: int) -> pa.Table:
    chance = random.Random(count)
    rows = [
        {
            "int32": chance.choice((0, -(2**31), 2**31 - 1)),
            "int64": chance.choice((0, -(2**63), 2**63 - 1)),
            "close": 10**12 + chance.randrange(3),
            "maybe_int64": chance.choice((None, row)),
            "timestamp": datetime(2024, 5, 1, tzinfo=UTC) + timedelta(milliseconds=row),
            "maybe_timestamp": chance.choice((None, datetime(1969, 12, 31, 23, 59, tzinfo=UTC))),
            "date": date(2024, 5, 1) + timedelta(days=row % 3),
            "double": chance.choice((None, row / 3)),
            "flag": chance.choice((None, True, False)),
            "bytes": chance.randbytes(chance.randrange(30)),
            "maybe_bytes": chance.choice((None, b"", b"some")),
            "text": chance.choice((None, "", "text é")),
            "few": chance.choice(("a", "b")),
            "maybe_few": chance.choice((None, "a", "b")),
            "headers": [{"key": f"k{each}", "value": chance.choice((None, b"v"))} for each in range(row % 3)],
        }
        for row in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def frame_of(spark: Spark, tmp_path: Path, data: bytes) -> DataFrame:
    (tmp_path / "table.parquet").write_bytes(data)
    return spark.session.read.parquet(str(tmp_path / "table.parquet"))


@pytest.fixture(params=["true", "false"])
def reading(spark: Spark, request: pytest.FixtureRequest) -> Iterator[Spark]:
    """With the reader for many rows at once, and with the one for single rows."""
    spark.session.conf.set(VECTORIZED, request.param)
    yield spark
    spark.session.conf.unset(VECTORIZED)


def test_spark_reads_every_type(reading: Spark, tmp_path: Path) -> None:
    tables = [some_rows(150), some_rows(151)]
    found = frame_of(reading, tmp_path, written(tables)).collect()

    expected = pa.concat_tables(tables).cast(PLAIN_SCHEMA).to_pylist()
    assert [_in_utc(row.asDict(recursive=True)) for row in found] == expected


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    """Spark gives timestamps in the time zone of this machine, without naming it."""
    return {
        name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in row.items()
    }


def test_spark_reads_runs(reading: Spark, tmp_path: Path) -> None:
    data, expected = runs(8, 1, 9, 700, 2, 5, 64)
    found = frame_of(reading, tmp_path, data).collect()

    assert [row.asDict() for row in found] == expected.to_pylist()


@pytest.mark.parametrize("parts", ["nr", "rnr", "nrrnn"])
def test_spark_reads_runs_among_numbers(reading: Spark, tmp_path: Path, parts: str) -> None:
    data, expected = mixed(parts, 5)
    found = frame_of(reading, tmp_path, data)

    assert [row.number for row in found.collect()] == expected
    assert [row.number for row in found.where("number >= 0").collect()] == expected


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("number BETWEEN 130 AND 150", lambda row: 130 <= row["number"] <= 150),
        ("number = 499", lambda row: row["number"] == 499),
        ("value = CAST('05433' AS BINARY)", lambda row: row["value"] == b"05433"),
        ("value IS NULL AND number > 300", lambda row: row["value"] is None and row["number"] > 300),
    ],
)
def test_spark_finds_what_a_filter_asks_for(
    reading: Spark, tmp_path: Path, condition: str, chosen: Callable[[dict[str, Any]], bool]
) -> None:
    table = numbers(500)
    found = frame_of(reading, tmp_path, written([table], NUMBERS)).where(condition).collect()

    expected = [row for row in table.to_pylist() if chosen(row)]
    assert [row.asDict() for row in found] == expected
    assert expected
