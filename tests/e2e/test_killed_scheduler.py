"""Airflow's scheduler is killed in the middle of two runs and comes back: both end well, as if undisturbed.

In the first run it dies alone, and the worker at its task continues; only the scheduler comes back.
In the second one everything on its machine dies with it, the driver too, and `make down`, `make up` follow.
"""

from collections.abc import Iterator
from datetime import date

import pytest
from rich.console import Console

from infra.cluster.service import Service
from infra.cluster.service import running as running_service
from infra.embedded.__main__ import ready
from infra.embedded.follow import follow
from infra.embedded.home import Home
from infra.embedded.rest import Api
from infra.embedded.services import command, groups, running, start, stop
from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.driver.client import _place
from spark_jobs.driver.protocol import SourcesRequest
from spark_jobs.flow import Step
from spark_jobs.lake.ledger import LedgerLine, RunStatus, list_runs
from spark_jobs.lake.stores import open_lake
from spark_jobs.progress import RunProgress
from spark_jobs.run import execute_run as run_plainly
from spark_jobs.sample.files import CONFIG, write_sample
from tests.e2e.airflow_runs import NIGHTLY, RUN_DATES, AirflowLake, running_airflow, until
from tests.faults.lake_contents import LakeContents, differences, lake_contents
from tests.faults.processes import below, called_with, kill
from tests.in_process import InProcess

SCHEDULER = "scheduler"
ENDED = {"success", "failed"}
SETTINGS = {
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
}
"""Airflow's own way to find out that a scheduler has died, sooner than by default."""


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowLake]:
    directory = tmp_path_factory.mktemp("killed")
    write_sample(directory / "sample")
    with running_airflow(directory, directory / "sample" / CONFIG, SETTINGS) as api:
        first = _killed_in(api, RUN_DATES[0], Step.INDEX)
        with running_service(_scheduler(api.home)):
            until(lambda: [first] if api.run_state(NIGHTLY, first) in ENDED else [])
        _start_again(api.home)
        second = _killed_in(api, RUN_DATES[1], Step.PUBLISH, all_with_it=True)
        _start_again(api.home)
        follow(api, NIGHTLY, second)
        yield AirflowLake(api, (first, second))


def _start_again(home: Home) -> None:
    """`make down`, `make up`."""
    stop(home)
    start(home)
    ready(home)


def _killed_in(api: Api, run_date: date, step: Step, *, all_with_it: bool = False) -> str:
    """A run that has come to `step` when its scheduler dies; its DAG run's id."""
    run_id = api.trigger(NIGHTLY, {"date": str(run_date)})
    lake = open_lake(load_settings(api.home.config))
    until(lambda: [line for line in list_runs(lake) if line.day == run_date and _is_at(line, step)])
    scheduler = running(api.home)[SCHEDULER]
    others = [*below(called_with(), scheduler), *_driver(api.home)] if all_with_it else []
    kill([scheduler, *others])
    assert api.run_state(NIGHTLY, run_id) == "running"
    return run_id


def _is_at(line: LedgerLine, step: Step) -> bool:
    return [each.step for each in line.steps[-1:]] == [step]


def _driver(home: Home) -> list[int]:
    place = _place(SourcesRequest(config=str(home.config)))
    return called_with("spark_jobs.driver", str(place.socket))


def _scheduler(home: Home) -> Service:
    """Another one, as a supervisor of services would start it."""
    log = home.directory / "scheduler-again.log"
    return Service(name=SCHEDULER, command=command(SCHEDULER), environment=home.environment, log=log)


@pytest.fixture(scope="module")
def undisturbed(disturbed: AirflowLake) -> Settings:
    """The same runs without Airflow, in a lake beside."""
    settings, progress = disturbed.plain_settings(), RunProgress(Console(quiet=True))
    for run_date in RUN_DATES:
        run_plainly(settings, run_date, until=Step.PUBLISH, spark=InProcess(), progress=progress)
    return settings


def _contents(settings: Settings) -> LakeContents:
    """Tables name their files by where the lake is."""
    found = lake_contents(settings)
    return {name: text.replace(f"{settings.lake}/", "") for name, text in found.items()}


def test_both_runs_end_well_and_every_task_with_them(disturbed: AirflowLake) -> None:
    for run_id in disturbed.dag_runs:
        assert disturbed.api.run_state(NIGHTLY, run_id) == "success"
        assert set(disturbed.states(NIGHTLY, run_id).values()) == {"success"}
    lines = list_runs(open_lake(disturbed.settings))
    assert [(line.day, line.status) for line in lines] == [
        (run_date, RunStatus.FINAL) for run_date in RUN_DATES
    ]


def test_runs_and_tables_are_those_of_undisturbed_runs(disturbed: AirflowLake, undisturbed: Settings) -> None:
    assert differences(_contents(undisturbed), _contents(disturbed.settings)) == []


def test_no_worker_of_a_killed_scheduler_outlives_the_end_of_airflow(disturbed: AirflowLake) -> None:
    """Two were killed since Airflow was first started; what runs now belongs to those that live."""
    assert groups(disturbed.api.home) == set(running(disturbed.api.home).values())
