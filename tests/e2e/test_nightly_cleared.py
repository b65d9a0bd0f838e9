"""Each task of a finished run, cleared and run again by the scheduler: good again, and nothing differs."""

from collections.abc import Mapping

import pytest

from infra.embedded.follow import follow
from spark_jobs.flow import STEPS
from spark_jobs.lake.ledger import list_runs
from spark_jobs.lake.stores import open_lake
from tests.e2e.airflow_runs import NIGHTLY, AirflowLake
from tests.faults.lake_contents import differences, lake_contents

pytestmark = pytest.mark.xdist_group("airflow")  # one process has all of these, and Airflow starts once

TASKS = ("sources", "fetch", *(step.value for step in STEPS), "run_succeeded")
"""In the order of the one line that they form."""
MAPPED = {"fetch": 2}
"""How many there are of a task that is no single one: one per source."""


def _clear(airflow_lake: AirflowLake, run_id: str, task: str | list[object], *, downstream: bool) -> None:
    """As the button of Airflow's page does it; returns when the run has ended well."""
    chosen: Mapping[str, object] = {"task_ids": [task], "include_downstream": downstream}
    how = {"dry_run": False, "only_failed": False, "reset_dag_runs": True}
    airflow_lake.api.post(f"dags/{NIGHTLY}/clearTaskInstances", {"dag_run_id": run_id, **chosen, **how})
    follow(airflow_lake.api, NIGHTLY, run_id)


def _tries(airflow_lake: AirflowLake, run_id: str) -> dict[tuple[str, int], int]:
    tasks = airflow_lake.api.tasks(NIGHTLY, run_id)
    return {(task["task_id"], max(task["map_index"], 0)): task["try_number"] for task in tasks}


def _ran(
    airflow_lake: AirflowLake, run_id: str, before: Mapping[tuple[str, int], int]
) -> set[tuple[str, int]]:
    """The tasks that ran once more, none of them twice."""
    more = {name: count - before[name] for name, count in _tries(airflow_lake, run_id).items()}
    assert set(more.values()) <= {0, 1}
    return {name for name, count in more.items() if count}


def _instances(*tasks: str) -> set[tuple[str, int]]:
    return {(task, number) for task in tasks for number in range(MAPPED.get(task, 1))}


def _attempts(airflow_lake: AirflowLake) -> list[tuple[str, str, int]]:
    return [(line.run_id, line.status, line.attempts) for line in list_runs(open_lake(airflow_lake.settings))]


@pytest.mark.parametrize("task", TASKS)
def test_a_task_cleared_alone_runs_alone_though_a_later_run_is_final(
    airflow_lake: AirflowLake, task: str
) -> None:
    run_id = airflow_lake.dag_runs[0]
    lake, attempts, tries = (
        lake_contents(airflow_lake.settings),
        _attempts(airflow_lake),
        _tries(airflow_lake, run_id),
    )

    _clear(airflow_lake, run_id, task, downstream=False)

    assert _ran(airflow_lake, run_id, tries) == _instances(task)
    assert differences(lake, lake_contents(airflow_lake.settings)) == []
    assert _attempts(airflow_lake) == attempts


@pytest.mark.parametrize("task", TASKS)
def test_a_task_cleared_with_all_after_it_leaves_everything_as_it_was(
    airflow_lake: AirflowLake, task: str
) -> None:
    run_id = airflow_lake.dag_runs[-1]
    lake, attempts, tries = (
        lake_contents(airflow_lake.settings),
        _attempts(airflow_lake),
        _tries(airflow_lake, run_id),
    )

    _clear(airflow_lake, run_id, task, downstream=True)

    assert _ran(airflow_lake, run_id, tries) == _instances(*TASKS[TASKS.index(task) :])
    assert differences(lake, lake_contents(airflow_lake.settings)) == []
    assert _attempts(airflow_lake) == attempts


def test_one_source_of_several_can_be_cleared_by_itself(airflow_lake: AirflowLake) -> None:
    run_id = airflow_lake.dag_runs[-1]
    lake, tries = lake_contents(airflow_lake.settings), _tries(airflow_lake, run_id)

    _clear(airflow_lake, run_id, ["fetch", 1], downstream=False)

    assert _ran(airflow_lake, run_id, tries) == {("fetch", 1)}
    assert differences(lake, lake_contents(airflow_lake.settings)) == []
