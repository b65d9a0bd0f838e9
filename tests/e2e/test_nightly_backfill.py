"""A backfill through Airflow's scheduler: its plan, its approval, its days in order, its refusals."""

from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from rich.console import Console

from infra.embedded.__main__ import BACKFILL
from infra.embedded.follow import follow
from infra.embedded.home import EmbeddedFailed
from infra.embedded.rest import Refused
from spark_jobs.flow import Step
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.stores import open_lake
from spark_jobs.operations.backfill import run_backfill
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run as run_plainly
from tests.e2e.airflow_runs import RUN_DATES, AirflowLake, tree, until
from tests.in_process import InProcess
from tests.pipeline.index.objects import plain_object

pytestmark = pytest.mark.xdist_group("airflow")  # one process has all of these, and Airflow starts once

FIRST = str(RUN_DATES[0])
LATE: dict[str, object] = {
    "from": FIRST,
    "to": None,
    "topics": [],
    "sources": [],
    "reason": "an object came late",
}


def _late_object(airflow_lake: AirflowLake) -> Path:
    """Something for the first run that arrives after it was published."""
    file = airflow_lake.config.parent / "gateway" / f"dt={FIRST}" / "late-0" / "a.batches"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(plain_object(3))
    return file


def _answer(airflow_lake: AirflowLake, run_id: str, answer: str) -> dict[str, Any]:
    """Answers the approval of a backfill through the REST API; returns what was asked."""
    until(lambda: _parked(airflow_lake, run_id))
    path = f"dags/{BACKFILL}/dagRuns/{quote(run_id)}/taskInstances/approve/-1/hitlDetails"
    asked: dict[str, Any] = airflow_lake.api.get(path)
    airflow_lake.api.patch(path, {"chosen_options": [answer], "params_input": {}})
    return asked


def _parked(airflow_lake: AirflowLake, run_id: str) -> list[str]:
    """The scheduler's own word: an answer before it, quicker than people are, fails the task."""
    lines = airflow_lake.api.home.log("scheduler").read_text().splitlines()
    ended = (line for line in lines if f"task_id=approve, run_id={run_id}" in line)
    return [line for line in ended if "state=awaiting_input" in line]


def test_a_dry_run_shows_the_plan_and_ends(airflow_lake: AirflowLake) -> None:
    _late_object(airflow_lake)
    before = airflow_lake.tree()

    run_id = airflow_lake.api.trigger(BACKFILL, {**LATE, "dry_run": True})
    follow(airflow_lake.api, BACKFILL, run_id)

    assert airflow_lake.states(BACKFILL, run_id) == {
        "plan": "success",
        "approve": "skipped",
        "days": "skipped",
        "report": "skipped",
        "backfill_succeeded": "skipped",
    }
    shown = airflow_lake.api.get(
        f"dags/{BACKFILL}/dagRuns/{quote(run_id)}/taskInstances/plan/xcomEntries/plan"
    )["value"]
    assert f"{FIRST}: **runs again**, " in shown
    assert "1 object" in shown
    assert shown in airflow_lake.log(BACKFILL, run_id, "plan")
    assert airflow_lake.tree() == before


def test_what_someone_refuses_is_not_done(airflow_lake: AirflowLake) -> None:
    _late_object(airflow_lake)
    before = airflow_lake.tree()

    run_id = airflow_lake.api.trigger(BACKFILL, {**LATE, "dry_run": False})
    until(lambda: _parked(airflow_lake, run_id))
    with pytest.raises(EmbeddedFailed, match="'approve' waits for approval"):
        follow(airflow_lake.api, BACKFILL, run_id, timeout_s=1)
    asked = _answer(airflow_lake, run_id, "Reject")
    follow(airflow_lake.api, BACKFILL, run_id)

    assert f"{FIRST}: **runs again**" in asked["body"]
    assert airflow_lake.states(BACKFILL, run_id)["backfill_succeeded"] == "skipped"
    assert airflow_lake.tree() == before


def test_what_someone_approves_runs_day_by_day_as_without_airflow_and_then_has_nothing_to_do(
    airflow_lake: AirflowLake,
) -> None:
    settings, progress = airflow_lake.plain_settings(), RunProgress(Console(quiet=True))
    _late_object(airflow_lake).unlink()  # or a plain first run would take it at once
    for day in read_chain(open_lake(airflow_lake.settings)).current:
        run_plainly(settings, day, until=Step.PUBLISH, spark=InProcess(), progress=progress)
    _late_object(airflow_lake)
    request = BackfillRequest(first=RUN_DATES[0], last=RUN_DATES[0], reason=str(LATE["reason"]))
    done = list(run_backfill(settings, request, spark=InProcess(), progress=progress, until=Step.PUBLISH))

    run_id = airflow_lake.api.trigger(BACKFILL, {**LATE, "dry_run": False})
    _answer(airflow_lake, run_id, "Approve")
    follow(airflow_lake.api, BACKFILL, run_id)

    states = airflow_lake.states(BACKFILL, run_id)
    assert states.pop(f"days {FIRST}") == "success"
    assert {
        name: states[name] for name in ("plan", "approve", "report", "backfill_succeeded")
    } == dict.fromkeys(("plan", "approve", "report", "backfill_succeeded"), "success")
    ran = {outcome.run_id[: len(FIRST)] for outcome in done}
    days = {name.removeprefix("days "): state for name, state in states.items() if name.startswith("days ")}
    assert days == {day: "success" if day in ran else "skipped" for day in days}
    plain = tree(Path(settings.lake) / "runs")
    final = {path.partition("/")[0] for path in plain}  # other tests leave runs that never became final
    assert {
        path: data for path, data in airflow_lake.tree().items() if path.partition("/")[0] in final
    } == plain

    again = airflow_lake.api.trigger(BACKFILL, {**LATE, "dry_run": False})
    follow(airflow_lake.api, BACKFILL, again)
    assert airflow_lake.states(BACKFILL, again)["approve"] == "skipped"


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"from": "yesterday"}, "yesterday"),
        ({"from": None}, "from"),
        ({"to": "2026-03"}, "2026-03"),
        ({"reason": ""}, "reason"),
        ({"topics": "orders"}, "orders"),
        ({"dry_run": "maybe"}, "maybe"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_form_that_cannot_be_meant_is_refused_at_once(
    airflow_lake: AirflowLake, change: dict[str, object], reported: str
) -> None:
    with pytest.raises(Refused) as refused:
        airflow_lake.api.trigger(BACKFILL, {**LATE, "dry_run": True, **change})

    assert refused.value.status in {400, 422}
    assert reported in refused.value.detail


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"to": str(date(2026, 2, 1))}, "From (2026-03-01) is after To (2026-02-01)"),
        ({"sources": ["gatewy"]}, "no source 'gatewy', only backup, gateway"),
    ],
    ids=["to before from", "unknown source"],
)
def test_a_form_that_contradicts_itself_or_the_configuration_is_reported_in_its_plan(
    airflow_lake: AirflowLake, change: dict[str, object], reported: str
) -> None:
    run_id = airflow_lake.api.trigger(BACKFILL, {**LATE, "dry_run": True, **change})

    with pytest.raises(EmbeddedFailed) as failed:
        follow(airflow_lake.api, BACKFILL, run_id)

    assert reported in str(failed.value)
