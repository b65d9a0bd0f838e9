"""Follows a DAG run on the terminal: a line per finished task, and the seconds of the running one."""

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from infra.embedded.home import EmbeddedFailed, Home
from infra.embedded.rest import Api
from infra.embedded.services import check_alive

ENDED = frozenset({"success", "failed", "upstream_failed", "skipped"})
AWAITS_OPERATOR = "awaiting_input"
SECONDS_BETWEEN_LOOKS = 0.5
TIMEOUT_S = 900.0
"""Longer than the longest pause before a task is tried again."""
Task = dict[str, Any]
"""A task instance, as Airflow's REST API returns it."""
CONSOLE = Console(highlight=False, soft_wrap=True, markup=False)


def follow(api: Api, dag_id: str, run_id: str, *, timeout_s: float = TIMEOUT_S) -> None:
    """Prints the run's tasks until it has ended; raises if it failed, or if no task makes progress."""
    shown: set[str] = set()
    stillness = Stillness(timeout_s)
    with CONSOLE.status("waiting for the scheduler …") as status:
        while True:
            check_alive(api.home)
            state = api.run_state(dag_id, run_id)
            tasks = sorted(api.tasks(dag_id, run_id), key=lambda each: each["start_date"] or "~")
            for task in tasks:
                if task["state"] in ENDED and _name(task) not in shown:
                    shown.add(_name(task))
                    CONSOLE.print(f"  {_name(task):<18} {task['state']:<16} {task['duration'] or 0:6.1f} s")
            if state in {"success", "failed"}:
                break
            if stillness.is_too_long(tasks):
                raise EmbeddedFailed(f"{_still(tasks)}; see {api.home.url}/dags/{dag_id}/runs/{run_id}")
            status.update(Text(_at_work(tasks)))
            time.sleep(SECONDS_BETWEEN_LOOKS)
    if state == "failed":
        failed = next(task for task in tasks if task["state"] == "failed")
        raise EmbeddedFailed(f"'{_name(failed)}' failed:\n{_log_errors(api.home, failed)}")


class Stillness:
    """For how long no task has run or changed its state."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s, self._began = timeout_s, time.monotonic()
        self._states: list[tuple[str, str]] = []

    def is_too_long(self, tasks: list[Task]) -> bool:
        states = [(task["id"], task["state"]) for task in tasks]
        if states != self._states or any(task["state"] == "running" for task in tasks):
            self._states, self._began = states, time.monotonic()
        return time.monotonic() - self._began > self._timeout_s


def _still(tasks: list[Task]) -> str:
    asked = [_name(task) for task in tasks if task["state"] == AWAITS_OPERATOR]
    if asked:
        return f"'{asked[0]}' waits for approval, under Required Actions"
    return f"no progress: {_at_work(tasks)}"


def _name(task: Task) -> str:
    """The task id, with the source or date of a mapped task."""
    which = task["rendered_map_index"] or (task["map_index"] if task["map_index"] >= 0 else "")
    return f"{task['task_id']} {which}".rstrip()


def _at_work(tasks: list[Task]) -> str:
    busy = [f"{_name(task)} ({task['state']})" for task in tasks if task["state"] not in {None, *ENDED}]
    return ", ".join(busy) or "waiting for the scheduler …"


def _log_errors(home: Home, task: Task) -> str:
    """The error of a failed task, from the log of its last attempt."""
    named = (f"dag_id={task['dag_id']}", f"run_id={task['dag_run_id']}", f"task_id={task['task_id']}")
    folder = home.directory.joinpath("logs", *named)
    if task["map_index"] >= 0:
        folder /= f"map_index={task['map_index']}"
    logs = sorted(folder.glob("attempt=*.log"))
    return "\n".join(_errors(logs[-1])) if logs else f"it left no log in {folder}"


def _errors(log: Path) -> list[str]:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [str(line["event"]) for line in lines if line.get("level") in {"error", "critical"}]
