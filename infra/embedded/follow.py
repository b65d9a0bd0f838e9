"""Follows a DAG run on the terminal: a line per task that has ended, and the seconds of the one at work."""

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from infra.embedded.home import EmbeddedFailed, Home
from infra.embedded.rest import Api

ENDED = frozenset({"success", "failed", "upstream_failed", "skipped"})
SECONDS_BETWEEN_LOOKS = 0.5
CONSOLE = Console(highlight=False, soft_wrap=True)


def follow(api: Api, dag_id: str, run_id: str) -> None:
    """Until the run has ended; raises what a person needs to know if it failed."""
    shown: set[str] = set()
    with CONSOLE.status("waiting for the scheduler …") as status:
        while True:
            state = api.run_state(dag_id, run_id)
            tasks = sorted(api.tasks(dag_id, run_id), key=lambda each: each["start_date"] or "~")
            for task in tasks:
                if task["state"] in ENDED and task["task_id"] not in shown:
                    shown.add(task["task_id"])
                    CONSOLE.print(
                        f"  {task['task_id']:<12} {task['state']:<16} {task['duration'] or 0:6.1f} s"
                    )
            if state in {"success", "failed"}:
                break
            status.update(_at_work(tasks))
            time.sleep(SECONDS_BETWEEN_LOOKS)
    if state == "failed":
        failed = [task["task_id"] for task in tasks if task["state"] == "failed"]
        raise EmbeddedFailed(f"'{failed[0]}' failed:\n{_last_words(api.home, dag_id, run_id, failed[0])}")


def _at_work(tasks: list[dict[str, Any]]) -> str:
    busy = [f"{task['task_id']} ({task['state']})" for task in tasks if task["state"] not in {None, *ENDED}]
    return ", ".join(busy) or "waiting for the scheduler …"


def _last_words(home: Home, dag_id: str, run_id: str, task_id: str) -> str:
    """What a task said about its failure, from the log of its last attempt."""
    folder = home.directory / "logs" / f"dag_id={dag_id}" / f"run_id={run_id}" / f"task_id={task_id}"
    logs = sorted(folder.glob("attempt=*.log"))
    return "\n".join(_errors(logs[-1])) if logs else f"it left no log in {folder}"


def _errors(log: Path) -> list[str]:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return [str(line["event"]) for line in lines if line.get("level") in {"error", "critical"}]
