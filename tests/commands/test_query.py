"""`onceover query` answers SQL on a log as tables, JSON, CSV or Parquet."""

import csv
import io
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from spark_jobs.cli import app
from tests.sample.log_directory import write_sample


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("query") / "data"
    write_sample(directory)
    return directory


def query(sql: str, *arguments: object) -> Result:
    return CliRunner().invoke(app, ["query", sql, *map(str, arguments)])


def rows(result: Result) -> list[list[object]]:
    assert result.exit_code == 0, result.output
    return [list(json.loads(line).values()) for line in result.stdout.splitlines()]


def test_a_table_for_people_has_text_where_bytes_are_text(log: Path) -> None:
    result = query("SELECT \"offset\", value FROM records WHERE topic = 'orders' AND partition = 0", log)

    assert result.exit_code == 0
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines() if line.strip()]
    assert [[cell.strip() for cell in line] for line in lines[2:]] == [
        ["0", "order 1"],
        ["1", "order 2"],
        ["4", "order 4"],
    ]
    assert "warning: " in result.stderr
    assert "payments-0/00000000000000000000.log: the last 100 bytes are no whole batch" in result.stderr


def test_json_has_bytes_in_base64_and_csv_a_heading(log: Path) -> None:
    sql = 'SELECT topic, key, value FROM records ORDER BY topic, partition, "offset" LIMIT 1'

    assert rows(query(sql, log, "--json")) == [["orders", "a2V5LTA=", "b3JkZXIgMQ=="]]
    assert list(csv.reader(io.StringIO(query(sql, log, "--csv").stdout))) == [
        ["topic", "key", "value"],
        ["orders", "key-0", "order 1"],
    ]


def test_parquet_appears_when_it_is_complete(log: Path, tmp_path: Path) -> None:
    result = query("SELECT * FROM records", log, "--parquet", tmp_path / "records.parquet")

    assert result.exit_code == 0
    assert "19 rows written" in result.stderr
    assert pq.read_table(tmp_path / "records.parquet").num_rows == 19
    assert query("SELECT nothing FROM records", log, "--parquet", tmp_path / "no.parquet").exit_code == 1
    assert [file.name for file in tmp_path.iterdir()] == ["records.parquet"]


@pytest.mark.parametrize(
    "forms", [("--json", "--csv"), ("--csv", "--parquet", "x.parquet"), ("--json", "--parquet", "x.parquet")]
)
def test_two_forms_of_output_are_a_usage_error(log: Path, forms: tuple[str, ...]) -> None:
    result = query("SELECT 1", log, *forms)

    assert result.exit_code == 2
    assert "exclude each other" in result.stderr


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM records", [[19]]),
        ('SELECT count(*) FROM records a JOIN records b USING (topic, partition, "offset")', [[19]]),
        ("SELECT outcome, count(*) FROM transactions GROUP BY 1 ORDER BY 1",
         [["aborted", 1], ["committed", 3], ["open", 1]]),
        ("SELECT count(*) FILTER (is_control) FROM batches", [[5]]),
        ("SELECT topic FROM producers WHERE producer_id = 5000", [["payments"]]),
        ("SELECT count(*) FROM remarks WHERE level = 'warning'", [[2]]),
        ("SELECT hour(timestamp), second(max(timestamp)) FROM records GROUP BY 1", [[0, 12]]),
        ("SELECT decode(value) FROM records WHERE key = 'key-1'::BLOB AND value IS NOT NULL", [["order 2"]]),
    ],
)  # fmt: skip
def test_tables_columns_and_filters(log: Path, sql: str, expected: list[list[object]]) -> None:
    assert rows(query(sql, log, "--json")) == expected


def test_isolation_and_topics_are_options(log: Path) -> None:
    sql = "SELECT count(*) FROM records"

    assert rows(query(sql, log, "--json", "--topic", "orders")) == [[4]]
    assert rows(query(sql, log, "--json", "--topic", "orders", "--isolation", "read_uncommitted")) == [[7]]


def test_errors_are_one_message_and_an_exit_code(log: Path, tmp_path: Path) -> None:
    for sql, path, said in (
        ("SELECT nothing FROM records", log, 'column "nothing" not found'),
        ("SELEC", log, "syntax error"),
        ("SELECT 1", tmp_path / "nothing", "there is no such file or directory"),
    ):
        result = query(sql, path)
        assert result.exit_code == 1
        assert said in result.stderr
        assert "Traceback" not in result.stderr


def test_a_damaged_log_gives_no_part_of_an_answer(log: Path, tmp_path: Path) -> None:
    segment = "00000000000000000000.log"
    data = bytearray((log / "orders-0" / segment).read_bytes())
    data[90] ^= 1
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / segment).write_bytes(data)

    result = query("SELECT count(*) FROM records", tmp_path, "--json")
    assert result.exit_code == 1
    assert not result.stdout
    assert "checksum mismatch" in result.stderr


def test_without_duckdb_the_extra_is_named(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)

    result = query("SELECT 1", log)
    assert result.exit_code == 1
    assert "pip install 'onceover[query]'" in result.stderr
