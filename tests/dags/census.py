"""Prints what Airflow finds in the DAG files, as JSON; runs in a process and a home of its own."""

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import cast

import airflow.providers.standard.operators.empty
import airflow.providers.standard.operators.python
import airflow.sdk
from airflow.sdk.definitions.deadline import DeadlineAlert  # what these bring along is not the files' doing
from airflow.sdk.definitions.mappedoperator import MappedOperator

before = set(sys.modules)

DAGS = Path(__file__).parents[2] / "dags"


def _read(path: Path) -> ModuleType:
    """The file as Airflow reads it: by its path, as a module of a name that nothing else has."""
    spec = spec_from_file_location(f"unusual_prefix_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILES = [_read(DAGS / f"{name}.py") for name in ("nightly", "backfill", "quality")]


def _reported(dag: airflow.sdk.DAG) -> dict[str, object]:
    return {
        "tags": sorted(dag.tags),
        "doc": dag.doc_md,
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "params": sorted(dag.params),
        "schedule": type(dag.timetable).__name__,
        "deadlines": [str(each.interval) for each in cast("list[DeadlineAlert]", dag.deadline or [])],
        "edges": sorted([task.task_id, below] for task in dag.tasks for below in task.downstream_task_ids),
        "tasks": {task.task_id: _task(task) for task in dag.tasks},
    }


def _task(task: airflow.sdk.BaseOperator | MappedOperator) -> dict[str, object]:
    return {
        "pool": task.pool,
        "retries": task.retries,
        "explains": bool(task.on_failure_callback),
        "doc": task.doc_md,
        "trigger_rule": task.trigger_rule,
        "mapped": task.is_mapped,
    }


if __name__ == "__main__":
    loaded = sorted(name.partition(".")[0] for name in set(sys.modules) - before)
    found = [each for file in FILES for each in vars(file).values() if isinstance(each, airflow.sdk.DAG)]
    print(json.dumps({"loaded": loaded, **{dag.dag_id: _reported(dag) for dag in found}}))
