"""A log that grows from run to run is published once: held records are published by the next run."""

import shutil
from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run
from tests.e2e.tables import by_duckdb, by_pyiceberg
from tests.pipeline.materialise.truth import DATA, truth_of

CONFIG = """
lake: lake
publish: read_committed
sources:
  - name: broker
    kind: broker-log
    root: source
"""


def _copy_of_the_log(recording: str, place: Path, *, whole: bool) -> None:
    """The broker's directory as a backup finds it: early on, each partition has its first segment only."""
    shutil.rmtree(place / "source", ignore_errors=True)
    shutil.copytree(DATA / recording / "data", place / "source")
    if whole:
        return
    for directory in (place / "source").iterdir():
        if directory.is_dir() and not directory.name.startswith("__"):
            first = min(directory.glob("*.log"))
            for path in directory.iterdir():
                if path.stem > first.stem and path.stem.isdigit():
                    path.unlink()


def _publish(settings: Settings, day: int, spark: Spark) -> str:
    progress = RunProgress(Console(quiet=True))
    outcome = execute_run(settings, date(2026, 11, day), until=Step.PUBLISH, spark=spark, progress=progress)
    return outcome.run_id


@pytest.mark.parametrize("recording", ["oracle_D", "oracle_E"])
def test_two_runs_publish_what_one_consumer_got(recording: str, tmp_path: Path, spark: Spark) -> None:
    settings = parse_settings(CONFIG, name="test.yaml", base=tmp_path)
    _copy_of_the_log(recording, tmp_path, whole=False)
    first = _publish(settings, 9, spark)
    _copy_of_the_log(recording, tmp_path, whole=True)
    _publish(settings, 10, spark)
    truth = truth_of(recording)
    assert by_pyiceberg(settings) == truth
    assert by_duckdb(settings) == truth
    early = by_pyiceberg(settings, tag=first)
    assert 0 < len(early) < len(truth)
    assert all(record in truth for record in early)
