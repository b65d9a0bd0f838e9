"""Prints what Airflow finds in the DAG files, as JSON; runs in a process and a home of its own."""

import json
import sys

import airflow.sdk  # what it brings along is not the DAG files' doing

before = set(sys.modules)

import dags.nightly  # noqa: E402 — after the count

FILES = {"dags.nightly": dags.nightly}


def _dag(file: object) -> airflow.sdk.DAG:
    [task, *_] = vars(file)["tasks"]
    found: airflow.sdk.DAG = task.operator.dag
    return found


def _told(file: object) -> dict[str, object]:
    dag = _dag(file)
    return {
        "tags": sorted(dag.tags),
        "doc": dag.doc_md,
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "params": sorted(dag.params),
        "edges": sorted([task.task_id, below] for task in dag.tasks for below in task.downstream_task_ids),
        "tasks": {
            task.task_id: {
                "pool": task.pool,
                "retries": task.retries,
                "explains": bool(task.on_failure_callback),
                "doc": task.doc_md,
            }
            for task in dag.tasks
        },
    }


if __name__ == "__main__":
    loaded = sorted(name.partition(".")[0] for name in set(sys.modules) - before)
    print(json.dumps({"loaded": loaded, **{_dag(file).dag_id: _told(file) for file in FILES.values()}}))
