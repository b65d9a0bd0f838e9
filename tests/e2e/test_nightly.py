"""Two runs through Airflow's own scheduler on SQLite: equal to plain runs, repeatable, clear in failure."""

import json
import os
import stat
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from infra.embedded.__main__ import QUALITY, show_summary
from infra.embedded.follow import follow
from infra.embedded.home import EmbeddedFailed, check_port
from infra.embedded.rest import Refused
from infra.embedded.services import running
from spark_jobs.flow import STEPS, Step
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.holdings import published_tables
from spark_jobs.lake.ledger import RunStatus, list_runs
from spark_jobs.lake.stores import open_lake
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run as run_plainly
from tests.e2e.airflow_runs import NIGHTLY, RUN_DATES, AirflowLake, tree, until
from tests.in_process import InProcess
from tests.pipeline.index.objects import plain_object
from tests.sample_truth import Row, shipped_rows, visible_rows

STRICT = "audit: {earliest_timestamp: 2025-01-01, severities: {timestamps_are_in_range: critical}}\n"
pytestmark = pytest.mark.xdist_group("airflow")  # one process has all of these, and Airflow starts once


STEP_TASKS = [step.value for step in STEPS]
FETCHED = ["fetch gateway", "fetch backup"]


def test_every_task_succeeds_at_the_first_try_and_both_runs_become_final(airflow_lake: AirflowLake) -> None:
    for run_id in airflow_lake.dag_runs:
        assert airflow_lake.states(NIGHTLY, run_id) == dict.fromkeys(
            ["sources", *FETCHED, *STEP_TASKS, "run_succeeded"], "success"
        )
    lines = list_runs(open_lake(airflow_lake.settings))
    assert [(line.day, line.status, line.attempts) for line in lines] == [
        (run_date, RunStatus.FINAL, 1) for run_date in RUN_DATES
    ]


def test_the_bytes_are_those_of_plain_runs(airflow_lake: AirflowLake) -> None:
    settings, progress = airflow_lake.plain_settings(), RunProgress(Console(quiet=True))

    for run_date in RUN_DATES:
        run_plainly(settings, run_date, until=Step.PUBLISH, spark=InProcess(), progress=progress)

    assert tree(Path(settings.lake) / "runs") == airflow_lake.tree()


@pytest.mark.parametrize("topic", ["orders", "payments", "visits"])
def test_a_captured_topics_table_holds_what_a_read_committed_consumer_would_have_got(
    airflow_lake: AirflowLake, topic: str
) -> None:
    assert _table(airflow_lake, topic) == visible_rows(airflow_lake.config.parent, topic)


def test_a_copied_topics_table_holds_what_the_coordinator_committed_though_a_marker_is_missing(
    airflow_lake: AirflowLake,
) -> None:
    assert _table(airflow_lake, "shipments") == shipped_rows(airflow_lake.config.parent)


def _table(airflow_lake: AirflowLake, topic: str) -> set[Row]:
    settings = airflow_lake.settings
    with open_catalog(settings) as catalog:
        rows = catalog.load_table(f"{settings.catalog.topics}.{topic}").scan().to_arrow().to_pylist()
    found = {(row["partition"], row["offset"], row["key"], row["value"]) for row in rows}
    assert len(found) == len(rows)
    return found


def test_every_published_table_is_announced_with_run_and_snapshot(airflow_lake: AirflowLake) -> None:
    [last] = [line.run_id for line in list_runs(open_lake(airflow_lake.settings))][-1:]
    tables = published_tables(airflow_lake.settings, last)

    events = airflow_lake.api.get("assets/events?limit=100")["asset_events"]

    reported = {event["name"]: event for event in events if event["extra"]["run_id"] == last}
    assert {name: event["extra"] for name, event in reported.items()} == {
        f"onceover.{name}": {"run_id": last, "snapshot_id": str(table.snapshot_id)}
        for name, table in tables.items()
    }
    assert reported["onceover.topics.orders"]["uri"] == tables["topics.orders"].location


def test_a_change_of_the_tables_brings_the_dashboard_up_to_date(airflow_lake: AirflowLake) -> None:
    runs = f"dags/{QUALITY}/dagRuns"

    found = until(
        lambda: [run for run in airflow_lake.api.get(runs)["dag_runs"] if run["state"] == "success"]
    )

    assert found[0]["run_type"] == "asset_triggered"


def test_lineage_knows_the_published_tables_as_datasets(airflow_lake: AirflowLake) -> None:
    lines = (airflow_lake.config.parents[1] / "lineage.jsonl").read_text().splitlines()

    events = [json.loads(line) for line in lines]

    outputs = {
        (dataset["namespace"], dataset["name"])
        for event in events
        if event["job"]["name"] == f"{NIGHTLY}.publish"
        for dataset in event["outputs"]
    }
    tables = published_tables(airflow_lake.settings, list_runs(open_lake(airflow_lake.settings))[-1].run_id)
    assert outputs == {("file", table.location.removeprefix("file://")) for table in tables.values()}


def test_a_run_that_is_late_is_reported_while_it_continues(airflow_lake: AirflowLake) -> None:
    reported = (
        airflow_lake.api.home.directory / "logs" / "executor_callbacks" / NIGHTLY / airflow_lake.dag_runs[0]
    )

    sentence = (
        f"the run {airflow_lake.dag_runs[0]} of {NIGHTLY} is not finished 0.001 hours after it was queued"
    )

    assert until(lambda: [log for log in reported.glob("*") if sentence in log.read_text()])


def test_the_summary_names_what_was_refused(
    airflow_lake: AirflowLake, capsys: pytest.CaptureFixture[str]
) -> None:
    show_summary(airflow_lake.config)

    shown = capsys.readouterr().out
    assert str(Path(airflow_lake.settings.lake, "dashboard", "index.html")) in shown
    for verdict in ("duplicate", "fenced", "out_of_order", "stale_duplicate", "invalid_transaction_state"):
        assert verdict in shown


def test_a_date_that_is_none_is_refused_when_the_run_is_triggered(airflow_lake: AirflowLake) -> None:
    with pytest.raises(Refused) as refused:
        airflow_lake.api.trigger(NIGHTLY, {"date": "tomorrow"})

    assert refused.value.status in {400, 422}
    assert "date" in refused.value.detail
    assert "tomorrow" in refused.value.detail


def test_a_run_without_a_date_says_what_is_missing(airflow_lake: AirflowLake) -> None:
    run_id = airflow_lake.api.trigger(NIGHTLY, {})

    with pytest.raises(EmbeddedFailed, match="has no run date: trigger it with a date"):
        follow(airflow_lake.api, NIGHTLY, run_id)


def test_what_cannot_pass_is_not_tried_again_and_the_log_says_what_to_do(airflow_lake: AirflowLake) -> None:
    with airflow_lake.configured(lambda text: text.replace("kind: capture", "kind: captured")):
        run_id = airflow_lake.api.trigger(NIGHTLY, {"date": "2026-03-03"})
        with pytest.raises(EmbeddedFailed) as failed:
            follow(airflow_lake.api, NIGHTLY, run_id)

    tries = {task["task_id"]: task["try_number"] for task in airflow_lake.api.tasks(NIGHTLY, run_id)}
    assert tries["sources"] == 1
    assert "'sources' failed" in str(failed.value)
    assert "captured" in str(failed.value)
    assert "clear this task" in str(failed.value)


def test_a_failed_audit_stops_publishing_says_why_and_is_reported_in_a_run_that_failed(
    airflow_lake: AirflowLake,
) -> None:
    early = airflow_lake.config.parent / "gateway" / "dt=2026-03-03" / "early-0"
    early.mkdir(parents=True)
    (early / "a.batches").write_bytes(plain_object(3))

    with airflow_lake.configured(lambda text: text + STRICT):
        run_id = airflow_lake.api.trigger(NIGHTLY, {"date": "2026-03-03"})
        with pytest.raises(EmbeddedFailed, match="'audit' failed"):
            follow(airflow_lake.api, NIGHTLY, run_id)

    states = airflow_lake.states(NIGHTLY, run_id)
    assert {
        name: states[name] for name in ("materialise", "audit", "publish", "report", "run_succeeded")
    } == {
        "materialise": "success",
        "audit": "failed",
        "publish": "upstream_failed",
        "report": "success",
        "run_succeeded": "upstream_failed",
    }
    reported = airflow_lake.log(NIGHTLY, run_id, "audit")
    assert "timestamps_are_in_range" in reported
    assert "topic early, partition 0" in reported
    assert [line.status for line in list_runs(open_lake(airflow_lake.settings))][-1] is RunStatus.FAILED


def test_airflows_own_backfill_continues_where_runs_stopped_and_gives_what_plain_runs_give(
    airflow_lake: AirflowLake,
) -> None:
    """It starts all runs at once: one that is done, one that has failed, one that never ran."""
    airflow_lake.api.post(
        "backfills",
        {"dag_id": NIGHTLY, "from_date": "2026-03-02T00:00:00Z", "to_date": "2026-03-04T23:00:00Z"},
    )
    made = [run["dag_run_id"] for run in _backfilled(airflow_lake)]
    for run_id in made:
        follow(airflow_lake.api, NIGHTLY, run_id)
    settings, progress = airflow_lake.plain_settings(), RunProgress(Console(quiet=True))
    for day in (*RUN_DATES, date(2026, 3, 3), date(2026, 3, 4)):
        run_plainly(settings, day, until=Step.PUBLISH, spark=InProcess(), progress=progress)

    assert len(made) == 3
    assert airflow_lake.tree() == tree(Path(settings.lake) / "runs")


def _backfilled(airflow_lake: AirflowLake) -> list[dict[str, Any]]:
    found = airflow_lake.api.get(f"dags/{NIGHTLY}/dagRuns?limit=100")["dag_runs"]
    return sorted(
        (run for run in found if run["run_type"] == "backfill"), key=lambda run: str(run["logical_date"])
    )


def test_secrets_are_readable_by_their_owner_alone_and_are_asked_for(airflow_lake: AirflowLake) -> None:
    home = airflow_lake.api.home
    for name in ("passwords.json", "keys.json"):
        assert stat.S_IMODE((home.directory / name).stat().st_mode) == 0o600
    with pytest.raises(Refused) as refused:
        airflow_lake.api._ask("GET", "/api/v2/dags", None, "")
    assert refused.value.status == 401


def test_a_port_in_use_is_reported_before_anything_starts(airflow_lake: AirflowLake) -> None:
    with pytest.raises(EmbeddedFailed, match=f"port {airflow_lake.api.home.port} cannot be used"):
        check_port(airflow_lake.api.home.port)


def test_only_loopback_is_listened_on(airflow_lake: AirflowLake) -> None:
    groups = set(running(airflow_lake.api.home).values())
    listening = {line.split()[9]: line.split()[1] for line in _tcp_lines() if line.split()[3] == "0A"}
    ours = {listening[inode] for inode in _sockets_of(groups) if inode in listening}

    assert {address.partition(":")[0] for address in ours} == {"0100007F"}


def _tcp_lines() -> list[str]:
    files = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    return [line for file in files if file.exists() for line in file.read_text().splitlines()[1:]]


def _sockets_of(groups: set[int]) -> set[str]:
    """The inodes of all sockets that processes of these groups hold."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) not in groups:
                continue
            names = [str(descriptor.readlink()) for descriptor in (process / "fd").iterdir()]
        except OSError:
            continue  # ended meanwhile
        found |= {name[len("socket:[") : -1] for name in names if name.startswith("socket:[")}
    return found
