"""A run of a wrong date can be taken back, final or not, and the overview shows the newest run without it."""

from datetime import date
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.flow import Step
from spark_jobs.lake.ledger import RunStatus, list_runs
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.report.step import report
from spark_jobs.run import execute_run
from tests.browser.visit import visit
from tests.in_process import InProcess
from tests.operations.backfill.lakes import QUIET
from tests.operations.lakes.small_lake import arrive, published_shop, rows, settings_of
from tests.operations.replay.runs import run

STRAY = date(2062, 5, 3)


@pytest.mark.parametrize("until", [Step.STAGE, Step.INDEX, Step.ADMIT, Step.PUBLISH])
@pytest.mark.usefixtures("great_expectations")
def test_a_stray_run_of_a_future_date_can_be_taken_back(
    browser: Browser, tmp_path: Path, until: Step
) -> None:
    shop = published_shop(tmp_path, days=2)
    settings = settings_of(shop)
    before = rows(settings)
    arrive(shop, 3)
    stray = execute_run(settings, STRAY, until=until, spark=InProcess(), progress=QUIET).run_id
    done = CliRunner().invoke(app, ["rollback", stray, "--config", str(tmp_path / "onceover.yaml")])
    assert done.exit_code == 0, done.output
    assert ("no table held it" in done.output) == (until is not Step.PUBLISH)
    assert {line.run_id: line.status for line in list_runs(open_lake(settings))}[
        stray
    ] is RunStatus.ROLLED_BACK
    assert rows(settings) == before
    report(settings)
    page = f"file://{settings.lake}/dashboard/index.html"
    with visit(browser, page) as seen:
        assert "2024-05-02" in seen.text(".hero")
        assert "2062" not in seen.text("#strip")

    run(settings, 3, Step.REPORT)
    assert len(rows(settings)["topics.plain"]) == 3
    with visit(browser, page) as seen:
        assert "2024-05-03" in seen.text(".hero")
