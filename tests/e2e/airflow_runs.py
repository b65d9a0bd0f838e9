"""A separate Airflow, whose scheduler executes the sample's two runs."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.embedded.__main__ import NIGHTLY, execute_run, ready
from infra.embedded.home import Home, free_port
from infra.embedded.rest import Api
from infra.embedded.services import groups, prepare, start, stop
from spark_jobs.config.load import load_settings
from spark_jobs.config.settings import Settings
from spark_jobs.driver.client import stop_driver
from spark_jobs.driver.protocol import SourcesRequest
from spark_jobs.sample.files import CONFIG, write_sample
from spark_jobs.sample.story import RUN_DATES

DAG_FILES = Path(__file__).parent / "dag_files"
TIMEOUT_S = 900
UNHURRIED = {
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "300",
}
"""Timeouts for a busy machine: no live process counts as dead, and no DAG file as broken."""


@dataclass(frozen=True)
class AirflowLake:
    """Both runs, run through the scheduler."""

    api: Api
    dag_runs: tuple[str, ...]

    @property
    def config(self) -> Path:
        return self.api.home.config

    @property
    def settings(self) -> Settings:
        return load_settings(self.config)

    def tree(self) -> dict[str, bytes]:
        """Everything that the runs have written."""
        return tree(Path(self.settings.lake) / "runs")

    def states(self, dag_id: str, run_id: str) -> dict[str, str]:
        """How the tasks of a run ended; mapped ones by the name that they show."""
        tasks = self.api.tasks(dag_id, run_id)
        return {_name(task): task["state"] for task in tasks}

    def log(self, dag_id: str, run_id: str, task_id: str) -> str:
        """All that the tries of a task have said."""
        folder = self.api.home.directory / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}"
        logs = (folder / f"task_id={task_id}").rglob("attempt=*.log")
        lines = (line for log in sorted(logs) for line in log.read_text().splitlines())
        return "\n".join(str(json.loads(line).get("event")) for line in lines if line.startswith("{"))

    @contextmanager
    def configured(self, change: Callable[[str], str]) -> Iterator[None]:
        """With another configuration for a while."""
        right = self.config.read_text()
        self.config.write_text(change(right))
        try:
            yield
        finally:
            self.config.write_text(right)

    def plain_settings(self) -> Settings:
        """The same configuration with a lake beside it, for runs without Airflow."""
        config = self.config.with_name("plain.yaml")
        config.write_text(self.config.read_text().replace("lake: lake", "lake: plain"))
        return load_settings(config)


def _name(task: dict[str, Any]) -> str:
    return f"{task['task_id']} {task['rendered_map_index'] or ''}".rstrip()


@contextmanager
def airflow_runs(directory: Path) -> Iterator[AirflowLake]:
    """Started, both runs done; ended with the block."""
    lineage = {"type": "file", "log_file_path": str(directory / "lineage.jsonl"), "append": True}
    settings = {
        "ONCEOVER_SCHEDULE": "0 3 * * *",
        "ONCEOVER_APPROVAL": "required",
        "ONCEOVER_DEADLINE_HOURS": "0.001",
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "shop",
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(lineage),
    }
    write_sample(directory / "sample")
    with running_airflow(directory, directory / "sample" / CONFIG, settings) as api:
        yield AirflowLake(api, tuple(execute_run(api, run_date) for run_date in RUN_DATES))


@contextmanager
def running_airflow(directory: Path, config: Path, settings: Mapping[str, str]) -> Iterator[Api]:
    """An Airflow that is ready; nothing of it lives beyond the block."""
    settings = {**UNHURRIED, "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2", **settings}
    home = Home(directory / "airflow", free_port(), config, dags=DAG_FILES, settings=settings)
    prepare(home)
    start(home)
    try:
        yield ready(home)
    finally:
        stop(home)
        stop_driver(SourcesRequest(config=str(home.config)))
    assert not groups(home)


def tree(directory: Path) -> dict[str, bytes]:
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def until(what: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    """What is found, as soon as something is."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return found


__all__ = ["NIGHTLY", "RUN_DATES", "AirflowLake", "airflow_runs", "running_airflow", "tree", "until"]
