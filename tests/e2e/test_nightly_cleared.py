"""Each task of a finished night, cleared and run again by the scheduler: good again, and nothing differs."""

from collections.abc import Mapping

import pytest

from infra.embedded.follow import follow
from spark_jobs.flow import STEPS
from spark_jobs.storage.ledger import list_runs
from spark_jobs.storage.stores import open_lake
from tests.e2e.airflow_nights import NIGHTLY, Nights
from tests.faults.standing import differences, standing

pytestmark = pytest.mark.xdist_group("airflow")  # one process has all of these, and Airflow starts once

TASKS = ("sources", "fetch", *(step.value for step in STEPS), "good_night")
"""In the order of the one line that they form."""
MAPPED = {"fetch": 2}
"""How many there are of a task that is no single one: one per source."""


def _clear(nights: Nights, run_id: str, task: str | list[object], *, downstream: bool) -> None:
    """As the button of Airflow's page does it; returns when the run has ended well."""
    chosen: Mapping[str, object] = {"task_ids": [task], "include_downstream": downstream}
    how = {"dry_run": False, "only_failed": False, "reset_dag_runs": True}
    nights.api.post(f"dags/{NIGHTLY}/clearTaskInstances", {"dag_run_id": run_id, **chosen, **how})
    follow(nights.api, NIGHTLY, run_id)


def _tries(nights: Nights, run_id: str) -> dict[tuple[str, int], int]:
    tasks = nights.api.tasks(NIGHTLY, run_id)
    return {(task["task_id"], max(task["map_index"], 0)): task["try_number"] for task in tasks}


def _ran(nights: Nights, run_id: str, before: Mapping[tuple[str, int], int]) -> set[tuple[str, int]]:
    """The tasks that ran once more, none of them twice."""
    more = {name: count - before[name] for name, count in _tries(nights, run_id).items()}
    assert set(more.values()) <= {0, 1}
    return {name for name, count in more.items() if count}


def _instances(*tasks: str) -> set[tuple[str, int]]:
    return {(task, number) for task in tasks for number in range(MAPPED.get(task, 1))}


def _attempts(nights: Nights) -> list[tuple[str, str, int]]:
    return [(line.run_id, line.status, line.attempts) for line in list_runs(open_lake(nights.settings))]


@pytest.mark.parametrize("task", TASKS)
def test_a_task_cleared_alone_runs_alone_though_a_later_night_is_final(nights: Nights, task: str) -> None:
    run_id = nights.dag_runs[0]
    lake, attempts, tries = standing(nights.settings), _attempts(nights), _tries(nights, run_id)

    _clear(nights, run_id, task, downstream=False)

    assert _ran(nights, run_id, tries) == _instances(task)
    assert differences(lake, standing(nights.settings)) == []
    assert _attempts(nights) == attempts


@pytest.mark.parametrize("task", TASKS)
def test_a_task_cleared_with_all_after_it_leaves_everything_as_it_was(nights: Nights, task: str) -> None:
    run_id = nights.dag_runs[-1]
    lake, attempts, tries = standing(nights.settings), _attempts(nights), _tries(nights, run_id)

    _clear(nights, run_id, task, downstream=True)

    assert _ran(nights, run_id, tries) == _instances(*TASKS[TASKS.index(task) :])
    assert differences(lake, standing(nights.settings)) == []
    assert _attempts(nights) == attempts


def test_one_source_of_several_can_be_cleared_by_itself(nights: Nights) -> None:
    run_id = nights.dag_runs[-1]
    lake, tries = standing(nights.settings), _tries(nights, run_id)

    _clear(nights, run_id, ["fetch", 1], downstream=False)

    assert _ran(nights, run_id, tries) == {("fetch", 1)}
    assert differences(lake, standing(nights.settings)) == []
