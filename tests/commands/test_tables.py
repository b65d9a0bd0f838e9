"""`onceover tables`: where a topic's records are, and queries that work as they are pasted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from spark_jobs.cli import app
from spark_jobs.config.load import load_settings
from tests.e2e.tables import by_pyiceberg
from tests.in_process import InProcess
from tests.pipeline.index.objects import plain_object
from tests.pipeline.runs import CAPTURE, place_at

TOPICS = {"orders": "topics.orders", "Telemetry-avro": "topics.telemetry_avro"}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The configuration of a lake with two topics, and what the run said; it did without Spark."""
    directory = tmp_path_factory.mktemp("published")
    place = place_at(directory)
    for number, topic in enumerate(TOPICS, start=3):
        place.arrive(f"dt=2024-05-01/{topic}-0/a", plain_object(number))
    config = directory / "one'run.yaml"
    config.write_text(CAPTURE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spark_jobs.execution.spark.spark_for", lambda _: InProcess())
        result = _call("run", "--config", str(config), "--date", "2024-05-01", "--until", "publish")
    assert result.exit_code == 0, result.output
    return config, result


@pytest.fixture
def config(published: tuple[Path, Result]) -> Path:
    return published[0]


def _call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def _listed(config: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in _call("tables", "--config", str(config), "--json").stdout.splitlines()
    ]


def test_every_topic_is_listed_with_its_table_rows_and_location(config: Path) -> None:
    found = {row["topic"]: row for row in _listed(config)}
    assert {topic: row["table"] for topic, row in found.items()} == TOPICS
    records = by_pyiceberg(load_settings(config))
    for topic, row in found.items():
        assert row["rows"] == sum(record["topic"] == topic for record in records) > 0
        assert Path(row["location"].removeprefix("file://"), "metadata").is_dir()
    shown = _call("tables", "--config", str(config)).stdout
    for topic, row in found.items():
        [line] = [line for line in shown.splitlines() if line.split()[:2] == [topic, row["table"]]]
        assert row["location"] in line


def test_the_python_query_works_as_it_is(config: Path) -> None:
    for row in _listed(config):
        done = subprocess.run(
            [sys.executable, "-c", row["queries"]["python"]], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert f"│ {row['rows']:>12} │" in done.stdout


def test_the_metadata_file_of_the_duckdb_query_is_the_newest(config: Path) -> None:
    for row in _listed(config):
        quoted = row["metadata"].replace("'", "''")
        assert f"iceberg_scan('{quoted}')" in row["queries"]["duckdb"]
        assert Path(row["metadata"].removeprefix("file://")).is_file()


def test_a_run_ends_with_its_tables(published: tuple[Path, Result]) -> None:
    config, result = published
    for topic, table in TOPICS.items():
        assert f"  {table}  " in result.stderr
        assert f" rows of topic {topic}, " in result.stderr
    assert f"onceover tables --config {config}" in result.stderr
    assert result.stdout.endswith("  final\n")


def test_one_topic_can_be_asked_for(config: Path) -> None:
    shown = _call("tables", "--config", str(config), "--topic", "orders").stdout
    assert "topics.orders" in shown
    assert "telemetry" not in shown


@pytest.mark.parametrize("more", [(), ("--topic", "nosuch")])
def test_a_lake_without_tables_says_so_and_stays_as_it_is(tmp_path: Path, more: tuple[str, ...]) -> None:
    config = tmp_path / "onceover.yaml"
    config.write_text(CAPTURE)
    result = _call("tables", "--config", str(config), *more)
    assert result.exit_code == 1
    assert result.stderr.startswith("onceover: ")
    assert not (config.parent / "lake").exists()
