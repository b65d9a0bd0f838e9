"""`report` comes after the run: it shows what became of it, and can neither spoil nor hide anything."""

from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from spark_jobs.flow import LAST_OF_RUN, Step
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.lake.errors import LakeBusy
from spark_jobs.lake.ledger import RunStatus, list_runs
from spark_jobs.lake.lock import lake_lock
from spark_jobs.pipeline.report import step as report
from spark_jobs.progress import RunProgress
from spark_jobs.run import ReportFailed, RunOutcome, execute_run
from tests.in_process import InProcess
from tests.pipeline.index.objects import plain_object
from tests.pipeline.runs import CAPTURE, Place, day, place_at

STRICT = "audit: {earliest_timestamp: 2100-01-01, severities: {timestamps_are_in_range: critical}}\n"

pytestmark = pytest.mark.usefixtures("great_expectations")


def _place(directory: Path, config: str = CAPTURE) -> Place:
    place = place_at(directory, config)
    place.arrive("dt=2024-05-01/orders-0/a", plain_object(3))
    return place


def _run(place: Place, until: Step = Step.REPORT) -> RunOutcome:
    progress = RunProgress(Console(quiet=True))
    return execute_run(place.settings, day(1), until=until, spark=InProcess(), progress=progress)


def _page(place: Place) -> Path:
    return Path(place.settings.lake, "dashboard", "index.html")


def _break_report(monkeypatch: pytest.MonkeyPatch, module: ModuleType = report) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no room for the dashboard")

    monkeypatch.setattr(module, "report", fail)


def test_a_run_is_final_with_publish_and_shown_by_report(tmp_path: Path) -> None:
    place = _place(tmp_path)

    outcome = _run(place)

    assert (outcome.is_final, outcome.done[-1].step) == (True, LAST_OF_RUN)
    assert _page(place).exists()


def test_report_leaves_nothing_in_the_run(tmp_path: Path) -> None:
    place = _place(tmp_path)
    first = _run(place, until=LAST_OF_RUN)

    again = _run(place)

    assert (again.run_id, again.done, again.worked) == (first.run_id, first.done, False)
    assert not Path(place.settings.lake, "runs", first.run_id, "report").exists()


def test_a_run_that_failed_is_reported_and_stays_failed(tmp_path: Path) -> None:
    place = _place(tmp_path, CAPTURE + STRICT)

    with pytest.raises(OnceoverError, match="timestamp"):
        _run(place)

    assert _page(place).exists()
    assert [line.status for line in list_runs(place.lake)] == [RunStatus.FAILED]


def test_a_good_run_whose_report_fails_says_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = _place(tmp_path)
    _break_report(monkeypatch)

    with pytest.raises(ReportFailed, match="is final and published; its report failed: no room"):
        _run(place)

    assert [line.status for line in list_runs(place.lake)] == [RunStatus.FINAL]


def test_a_failed_run_whose_report_fails_reports_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = _place(tmp_path, CAPTURE + STRICT)
    _break_report(monkeypatch)

    with pytest.raises(OnceoverError, match="timestamp") as failed:
        _run(place)

    assert failed.value.__notes__ == ["its report failed, too: no room for the dashboard"]


def test_a_busy_lake_is_left_to_the_run_that_works_on_it(tmp_path: Path) -> None:
    place = _place(tmp_path)

    with lake_lock(place.lake, purpose="another run"), pytest.raises(LakeBusy):
        _run(place)

    assert not _page(place).exists()
