"""Two nights through Airflow's own scheduler on SQLite: equal to plain runs, repeatable, clear in failure."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from infra.embedded.__main__ import NIGHTLY, ready, run_night
from infra.embedded.follow import follow
from infra.embedded.home import EmbeddedFailed, Home, check_port, free_port
from infra.embedded.rest import Api, Refused
from infra.embedded.services import prepare, running, start, stop
from infra.embedded.summary import show_summary
from spark_jobs.config.load import load_settings
from spark_jobs.driver.client import stop_driver
from spark_jobs.driver.messages import StepRequest
from spark_jobs.flow import Step
from spark_jobs.reporting.narrator import Narrator
from spark_jobs.run import run_night as run_plainly
from spark_jobs.sample.nights import write_sample
from spark_jobs.sample.story import NIGHTS
from spark_jobs.spark_session import Spark
from spark_jobs.storage.iceberg.catalog import open_catalog
from spark_jobs.storage.iceberg.published import published_snapshots
from spark_jobs.storage.ledger import RunStatus, list_runs
from spark_jobs.storage.stores import open_lake
from tests.dags.test_dags import _existing
from tests.sample_truth import Row, shipped_rows, visible_rows

pytestmark = pytest.mark.usefixtures("spark")  # so that one process has all of these, and Airflow starts once


@dataclass(frozen=True)
class Nights:
    """Both nights, run through the scheduler."""

    api: Api
    dag_runs: tuple[str, ...]

    @property
    def config(self) -> Path:
        return self.api.home.config

    def tree(self) -> dict[str, bytes]:
        """Everything that the runs have written."""
        return _tree(Path(load_settings(self.config).lake) / "runs")

    def last(self) -> dict[str, dict[str, Any]]:
        """The tasks of the last night."""
        return {task["task_id"]: task for task in self.api.tasks(NIGHTLY, self.dag_runs[-1])}


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nights]:
    directory = tmp_path_factory.mktemp("nights")
    write_sample(directory / "sample")
    home = Home(directory / "airflow", free_port(), directory / "sample" / "onceover.yaml")
    prepare(home)
    start(home)
    try:
        api = ready(home)
        yield Nights(api, tuple(run_night(api, night) for night in NIGHTS))
    finally:
        stop(home)
        stop_driver(StepRequest(config=str(home.config), day=NIGHTS[0], step=Step.STAGE, goes_on=True))
    assert not running(home)


def _tree(directory: Path) -> dict[str, bytes]:
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_every_task_succeeds_at_the_first_try_and_both_nights_become_final(nights: Nights) -> None:
    for run_id in nights.dag_runs:
        tasks = nights.api.tasks(NIGHTLY, run_id)
        assert {task["task_id"]: (task["state"], task["try_number"]) for task in tasks} == dict.fromkeys(
            _existing(), ("success", 1)
        )
    lines = list_runs(open_lake(load_settings(nights.config)))
    assert [(line.day, line.status, line.attempts) for line in lines] == [
        (night, RunStatus.FINAL, 1) for night in NIGHTS
    ]


def test_the_bytes_are_those_of_plain_runs(nights: Nights, spark: Spark) -> None:
    config = nights.config.with_name("plain.yaml")
    config.write_text(nights.config.read_text().replace("lake: lake", "lake: plain"))
    settings = load_settings(config)
    narrator = Narrator(Console(quiet=True))

    for night in NIGHTS:
        run_plainly(settings, night, until=Step(_existing()[-1]), spark=spark, narrator=narrator)

    assert _tree(Path(settings.lake) / "runs") == nights.tree()


@pytest.mark.parametrize("topic", ["orders", "payments", "visits"])
def test_a_captured_topics_table_holds_what_a_read_committed_consumer_would_have_got(
    nights: Nights, topic: str
) -> None:
    assert _table(nights, topic) == visible_rows(nights.config.parent, topic)


def test_a_copied_topics_table_holds_what_the_coordinator_committed_though_a_marker_is_missing(
    nights: Nights,
) -> None:
    assert _table(nights, "shipments") == shipped_rows(nights.config.parent)


def _table(nights: Nights, topic: str) -> set[Row]:
    settings = load_settings(nights.config)
    with open_catalog(settings) as catalog:
        rows = catalog.load_table(f"{settings.catalog.topics}.{topic}").scan().to_arrow().to_pylist()
    found = {(row["partition"], row["offset"], row["key"], row["value"]) for row in rows}
    assert len(found) == len(rows)
    return found


def test_every_published_table_is_announced_with_run_and_snapshot(nights: Nights) -> None:
    [last] = [line.run_id for line in list_runs(open_lake(load_settings(nights.config)))][-1:]
    snapshots = published_snapshots(load_settings(nights.config), last)

    events = nights.api.get("assets/events?limit=100")["asset_events"]

    told = {event["name"]: event["extra"] for event in events if event["extra"]["run_id"] == last}
    assert told == {
        f"onceover.{table}": {"run_id": last, "snapshot_id": str(snapshot)}
        for table, snapshot in snapshots.items()
    }


def test_the_summary_names_what_was_refused(nights: Nights, capsys: pytest.CaptureFixture[str]) -> None:
    show_summary(nights.config)

    shown = capsys.readouterr().out
    for verdict in ("duplicate", "fenced", "out_of_order", "stale_duplicate", "invalid_transaction_state"):
        assert verdict in shown


def test_tasks_cleared_and_run_again_change_nothing(nights: Nights) -> None:
    before, tries = nights.tree(), {name: task["try_number"] for name, task in nights.last().items()}
    cleared = {"dag_run_id": nights.dag_runs[-1], "task_ids": ["index"], "include_downstream": True}

    nights.api.post(
        f"dags/{NIGHTLY}/clearTaskInstances",
        {**cleared, "dry_run": False, "only_failed": False, "reset_dag_runs": True},
    )
    follow(nights.api, NIGHTLY, nights.dag_runs[-1])

    again = {name: task["try_number"] - tries[name] for name, task in nights.last().items()}
    assert again == {step: 0 if step == "stage" else 1 for step in _existing()}
    assert nights.tree() == before


def test_a_date_that_is_none_is_refused_when_the_run_is_triggered(nights: Nights) -> None:
    with pytest.raises(Refused) as refused:
        nights.api.trigger(NIGHTLY, {"date": "tomorrow"})

    assert refused.value.status in {400, 422}
    assert "date" in refused.value.detail
    assert "tomorrow" in refused.value.detail


def test_a_run_without_a_date_says_what_is_missing(nights: Nights) -> None:
    run_id = nights.api.trigger(NIGHTLY, {})

    with pytest.raises(EmbeddedFailed, match="belongs to no night: trigger it with a date"):
        follow(nights.api, NIGHTLY, run_id)


def test_what_cannot_pass_is_not_tried_again_and_the_log_says_what_to_do(nights: Nights) -> None:
    right = nights.config.read_text()
    nights.config.write_text(right.replace("kind: capture", "kind: captured"))
    try:
        run_id = nights.api.trigger(NIGHTLY, {"date": "2026-03-03"})
        with pytest.raises(EmbeddedFailed) as failed:
            follow(nights.api, NIGHTLY, run_id)
    finally:
        nights.config.write_text(right)

    tries = {task["task_id"]: task["try_number"] for task in nights.api.tasks(NIGHTLY, run_id)}
    assert tries["stage"] == 1
    assert "'stage' failed" in str(failed.value)
    assert "captured" in str(failed.value)
    assert "clear this task" in str(failed.value)


def test_secrets_are_the_owners_alone_and_nobody_gets_in_without(nights: Nights) -> None:
    home = nights.api.home
    for name in ("passwords.json", "keys.json"):
        assert stat.S_IMODE((home.directory / name).stat().st_mode) == 0o600
    with pytest.raises(Refused) as refused:
        nights.api._ask("GET", "/api/v2/dags", None, "")
    assert refused.value.status == 401


def test_a_port_in_use_is_told_before_anything_starts(nights: Nights) -> None:
    with pytest.raises(EmbeddedFailed, match=f"port {nights.api.home.port} cannot be used"):
        check_port(nights.api.home.port)


def test_only_loopback_is_listened_on(nights: Nights) -> None:
    groups = set(running(nights.api.home).values())
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
