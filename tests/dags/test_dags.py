"""The DAGs as Airflow reads them: their tasks are the flow's steps, their edges the flow's order."""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.config.load import load_settings
from spark_jobs.flow import STEPS
from spark_jobs.sources.cluster.credentials import credentials_of

HEAVY = {
    "pyspark",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "great_expectations",
    "duckdb",
    "boto3",
    "pyiceberg",
}
LIGHT = {"airflow", "croniter", "packaging", "spark_jobs"}


def _census(home: Path, **variables: str) -> dict[str, Any]:
    """The DAGs as they are with `variables` set."""
    environment = {**os.environ, "AIRFLOW_HOME": str(home), **variables}
    command = [sys.executable, "-m", "tests.dags.census"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def census(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return _census(tmp_path_factory.mktemp("airflow"))


@pytest.fixture(scope="module")
def nightly(census: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = census["onceover_nightly"]
    return found


@pytest.fixture(scope="module")
def backfill(census: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = census["onceover_backfill"]
    return found


def test_there_are_three_dags_that_can_be_found_and_read_about(census: dict[str, Any]) -> None:
    dags = {name: census[name] for name in census if name != "loaded"}

    assert sorted(dags) == ["onceover_backfill", "onceover_nightly", "onceover_quality"]
    for dag in dags.values():
        assert dag["tags"] == ["onceover"]
        assert dag["doc"].startswith("# ")
        assert (dag["catchup"], dag["max_active_runs"]) == (False, 1)


def test_one_task_of_a_lake_at_a_time_whatever_dag_it_belongs_to(census: dict[str, Any]) -> None:
    tasks = [task for name in census if name != "loaded" for task in census[name]["tasks"].values()]

    assert {task["pool"] for task in tasks} == {"onceover"}


def test_reading_the_dag_files_loads_nothing_but_airflow_and_our_own_modules(
    census: dict[str, Any],
) -> None:
    assert not HEAVY & set(census["loaded"])
    assert set(census["loaded"]) - set(sys.stdlib_module_names) <= LIGHT


def test_the_tasks_are_the_steps_after_one_per_source(nightly: dict[str, Any]) -> None:
    assert list(nightly["tasks"]) == [*STEPS, "run_succeeded", "sources", "fetch"]
    assert [name for name, task in nightly["tasks"].items() if task["mapped"]] == ["fetch"]


def test_every_step_waits_for_the_one_before_it_so_nothing_is_published_unaudited(
    nightly: dict[str, Any],
) -> None:
    line = ["sources", "fetch", *STEPS, "run_succeeded"]
    assert nightly["edges"] == sorted([*map(list, pairwise(line)), ["publish", "run_succeeded"]])


def test_only_the_report_runs_whatever_happened_before(nightly: dict[str, Any]) -> None:
    rules = {name: task["trigger_rule"] for name, task in nightly["tasks"].items()}
    assert rules.pop("report") == "all_done"
    assert set(rules.values()) == {"all_success"}


def test_a_run_of_the_dag_is_good_only_if_it_is_published_and_reported(nightly: dict[str, Any]) -> None:
    """Airflow looks at the tasks that none follows: were it `report`, a failed audit would look good."""
    followed = {above for above, _ in nightly["edges"]}
    assert set(nightly["tasks"]) - followed == {"run_succeeded"}
    assert {above for above, below in nightly["edges"] if below == "run_succeeded"} == {"publish", "report"}


def test_a_run_that_is_late_is_reported(nightly: dict[str, Any]) -> None:
    assert nightly["deadlines"] == ["4:00:00"]


def test_every_task_says_what_it_does_retries_what_can_pass_and_explains_its_failure(
    nightly: dict[str, Any],
) -> None:
    for name, task in nightly["tasks"].items():
        assert task["doc"].endswith(".")
        assert task["retries"] > 0 or name == "run_succeeded"
        assert task["explains"] or name == "run_succeeded"


def test_a_run_can_be_chosen(nightly: dict[str, Any]) -> None:
    assert nightly["params"] == ["date", "restage"]


def test_a_backfill_is_triggered_by_hand_with_a_form(backfill: dict[str, Any]) -> None:
    assert backfill["schedule"] == "NullTimetable"
    assert backfill["params"] == ["dry_run", "from", "reason", "sources", "to", "topics"]


def test_no_day_of_a_backfill_runs_before_its_plan(backfill: dict[str, Any]) -> None:
    assert backfill["edges"] == [
        ["days", "backfill_succeeded"],
        ["days", "report"],
        ["plan", "days"],
        ["report", "backfill_succeeded"],
    ]
    assert backfill["tasks"]["days"]["mapped"]
    assert backfill["tasks"]["report"]["trigger_rule"] == "all_done"
    assert backfill["tasks"]["backfill_succeeded"]["trigger_rule"] == "none_failed"


def test_where_approval_is_required_no_day_runs_without(tmp_path: Path) -> None:
    found = _census(tmp_path, ONCEOVER_APPROVAL="required")

    edges = found["onceover_backfill"]["edges"]
    assert ["plan", "approve"] in edges
    assert ["approve", "days"] in edges


def test_the_dashboard_follows_the_tables(census: dict[str, Any]) -> None:
    quality = census["onceover_quality"]

    assert quality["schedule"] == "AssetTriggeredTimetable"
    assert quality["edges"] == [["report", "expire"]]


@pytest.mark.parametrize(("host", "port"), [("spark://10.0.0.1", 7077), ("sc://10.0.0.1", 15002)])
def test_a_connection_says_which_spark_to_use(tmp_path: Path, host: str, port: int) -> None:
    connection = {
        "conn_type": "spark",
        "host": host,
        "port": port,
        "extra": {"conf": {"spark.executor.memory": "4g"}},
    }

    assert _spark(tmp_path, AIRFLOW_CONN_ONCEOVER_SPARK=json.dumps(connection)) == [
        f"{host}:{port}",
        {"spark.executor.memory": "4g"},
    ]


def test_a_master_that_needs_no_port_is_taken_as_it_is(tmp_path: Path) -> None:
    connection = json.dumps({"conn_type": "spark", "host": "yarn"})

    assert _spark(tmp_path, AIRFLOW_CONN_ONCEOVER_SPARK=connection) == ["yarn", {}]


def test_a_source_names_the_connection_that_has_its_login(tmp_path: Path) -> None:
    config = tmp_path / "onceover.yaml"
    security = "{protocol: SASL_SSL, mechanism: PLAIN, connection: kafka_live}"
    source = f"{{name: live, kind: cluster, bootstrap: 'a:9098', security: {security}}}"
    config.write_text(f"lake: lake\nsources: [{source}]\n")
    given = {"AIRFLOW_CONN_KAFKA_LIVE": "kafka://ada:s3%2Fcret@a:9098"}

    found = _asked(tmp_path, f"_connections({str(config)!r})", **given)

    credentials = credentials_of(load_settings(config).source("live"), found)
    assert list(found) == list(given)
    assert (credentials.username, credentials.password) == ("ada", "s3/cret")


def _spark(home: Path, **variables: str) -> Any:
    return _asked(home, "_spark()", **variables)


def _asked(home: Path, what: str, **variables: str) -> Any:
    """What a task would ask for, in an environment with `variables`."""
    code = f"import json; from spark_jobs.airflow import dag_run; print(json.dumps(dag_run.{what}))"
    environment = {**os.environ, "AIRFLOW_HOME": str(home), **variables}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])
