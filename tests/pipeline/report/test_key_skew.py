"""Which keys a topic crowds under, from what a run wrote; keys are shown as text, or else as bytes."""

from pathlib import Path

import pyarrow as pa

from spark_jobs.flow import Step
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.pipeline.report.run_tables import RunTables
from spark_jobs.pipeline.report.topics import SHOWN_CHARACTERS, key_skews, key_text
from spark_jobs.tables.materialise import TABLE_FILES

RUN = "2024-05-01-0123456789abcdef"
FOLDER = step_key(RUN, Step.MATERIALISE)


def lake_with(place: Path, topics: dict[str, list[bytes | None] | None]) -> RunTables:
    """A run's files of records by topic; None for a file that has been cleared away."""
    lake = FileStore(str(place))
    for topic, keys in topics.items():
        if keys is not None:
            put_table(lake, FOLDER, f"{topic}.parquet", pa.table({"key": pa.array(keys, pa.binary())}))
    rows = [
        {
            "namespace": "topics",
            "table": topic,
            "topic": topic,
            "file": f"{topic}.parquet",
            "rows": 1,
            "bytes": 1,
        }
        for topic in topics
    ]
    put_table(lake, FOLDER, TABLE_FILES.file, pa.Table.from_pylist(rows, schema=TABLE_FILES.schema))
    return RunTables(lake, RUN)


def test_the_most_frequent_keys_come_first_and_missing_ones_are_counted(tmp_path: Path) -> None:
    tables = lake_with(tmp_path, {"orders": [b"a", b"b", b"b", None, b"\xff"]})
    assert key_skews(tables) == {
        "orders": {"sampled": 5, "without": 1, "distinct": 3, "top": [["b", 2], ["a", 1], ["0xff", 1]]}
    }


def test_a_file_that_has_been_cleared_away_is_no_error(tmp_path: Path) -> None:
    assert key_skews(lake_with(tmp_path, {"orders": None, "visits": [b"v"]})).keys() == {"visits"}


def test_an_empty_key_is_not_the_same_as_none(tmp_path: Path) -> None:
    found = key_skews(lake_with(tmp_path, {"orders": [b"", None]}))["orders"]
    assert (found["without"], found["top"]) == (1, [["", 1]])


def test_a_long_key_is_cut() -> None:
    assert key_text(b"x" * 1000) == "x" * SHOWN_CHARACTERS + "…"
