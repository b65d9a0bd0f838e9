"""From a real broker's log directory to tables, through every step: they hold what its consumer got."""

from datetime import date
from pathlib import Path

import pytest
from rich.console import Console

from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.execution.spark import Spark
from spark_jobs.flow import Step
from spark_jobs.progress import RunProgress
from spark_jobs.run import RunOutcome, execute_run
from tests.e2e.tables import by_duckdb, by_pyiceberg, own_rows
from tests.pipeline.materialise.truth import DATA, truth_of

BEFORE = date(2026, 11, 10)
"""Earlier than the recordings, so that no transaction that they leave open has timed out."""


def settings_for(place: Path, recording: str) -> Settings:
    config = f"""
lake: lake
publish: read_committed
sources:
  - name: broker
    kind: broker-log
    root: {DATA / recording / "data"}
"""
    return parse_settings(config, name="test.yaml", base=place)


def run(settings: Settings, spark: Spark) -> RunOutcome:
    progress = RunProgress(Console(quiet=True))
    return execute_run(settings, BEFORE, until=Step.PUBLISH, spark=spark, progress=progress)


@pytest.mark.parametrize("recording", ["oracle_D", "oracle_E", "workload_clean"])
def test_the_tables_hold_the_records_that_a_consumer_got(
    recording: str, tmp_path: Path, spark: Spark
) -> None:
    settings = settings_for(tmp_path, recording)
    outcome = run(settings, spark)
    truth = truth_of(recording)
    assert by_pyiceberg(settings) == truth
    assert by_duckdb(settings) == truth
    assert by_pyiceberg(settings, tag=outcome.run_id) == truth
    assert [row["run_id"] for row in own_rows(settings, "runs")] == [outcome.run_id]
    indexed = next(done.counts["batches"] for done in outcome.done if done.step is Step.INDEX)
    assert len(own_rows(settings, "batches")) == indexed
