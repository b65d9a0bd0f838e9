"""The sources of a run as tasks: each is fetched on its own, so a slow or broken one has a name."""

import logging
from typing import Any

from airflow.sdk import XComArg, get_current_context, task

from spark_jobs.airflow.failure import final_unless_transient
from spark_jobs.airflow.run_date import restage_of, run_date_of, where
from spark_jobs.airflow.task_settings import LAKE_TASK
from spark_jobs.airflow.wait import wait_for_earlier_runs
from spark_jobs.driver.client import ask
from spark_jobs.driver.messages import FetchRequest, SourcesRequest

LOG = logging.getLogger("onceover")


@task(
    task_id="sources",
    doc_md="Lists the configured sources. Waits for earlier runs that are still running.",
    **LAKE_TASK,
)
def list_sources() -> list[str]:
    context = get_current_context()
    run_date_of(context)  # a DAG run without a run date fails before anything starts
    wait_for_earlier_runs(context)
    with final_unless_transient():
        return list(ask(SourcesRequest(**where()), log=LOG.info)["sources"])


@task(
    task_id="fetch",
    doc_md="Brings the objects of one source into the lake. The run's inputs stay open until `stage`.",
    map_index_template="{{ task.op_kwargs['source'] }}",
    **LAKE_TASK,
)
def fetch(source: str) -> dict[str, Any]:
    with final_unless_transient():
        context = get_current_context()
        request = FetchRequest(
            **where(), day=run_date_of(context), source=source, restage=restage_of(context)
        )
        counts = ask(request, log=LOG.info)
    LOG.info("%s: %s", source, ", ".join(f"{count:,} {name}" for name, count in counts.items()))
    return dict(counts)


def source_tasks() -> XComArg:
    """All sources, each with a task of its own."""
    return fetch.expand(source=list_sources())
