"""A step of the flow as an Airflow task: asks the driver for it and announces what it has published."""

import logging
from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset, AssetAlias, Context, XComArg, get_current_context, task

from spark_jobs.airflow.failure import final_unless_transient
from spark_jobs.airflow.run_date import restage_of, run_date_of, where
from spark_jobs.airflow.run_link import with_run_page
from spark_jobs.airflow.task_settings import LAKE_TASK
from spark_jobs.driver.client import run_step
from spark_jobs.driver.messages import StepRequest
from spark_jobs.flow import LAST_OF_RUN, Step

LOG = logging.getLogger("onceover")
TABLES = AssetAlias("onceover_tables")
"""Represents the assets of all tables, whose names are known once a run is published."""


def step_task(step: Step, why: str) -> XComArg:
    """The task of `step`; `why` is its documentation."""
    outlets = [TABLES] if step is Step.PUBLISH else []

    @task(task_id=step.value, doc_md=why, outlets=outlets, **LAKE_TASK)
    def do() -> dict[str, Any]:
        return do_step(get_current_context(), step)

    return with_run_page(do()) if step is Step.PUBLISH else do()


def do_step(context: Context, step: Step) -> dict[str, Any]:
    """Has the step done; the run becomes final with the last one."""
    more_steps_follow = step is not LAST_OF_RUN
    with final_unless_transient():
        restage = step is Step.STAGE and restage_of(context)
        request = StepRequest(
            **where(),
            day=run_date_of(context),
            step=step,
            more_steps_follow=more_steps_follow,
            restage=restage,
        )
        answer = run_step(request, log=LOG.info)
    announce(context, answer.run_id, answer.tables)
    reported = "is final" if answer.is_final else "continues"
    LOG.info("run %s %s%s", answer.run_id, reported, "" if answer.worked else "; nothing was left to do")
    return {"run_id": answer.run_id, "counts": dict(answer.counts)}


def announce(context: Context, run_id: str, tables: Mapping[str, Mapping[str, str]]) -> None:
    """An asset event for each published table, with run and snapshot for its consumers.

    An asset has the name and the location of its table, so OpenLineage treats it as a dataset.
    """
    for name, table in tables.items():
        context["outlet_events"][TABLES].add(
            Asset(name=f"onceover.{name}", uri=table["location"]),
            extra={"run_id": run_id, "snapshot_id": table["snapshot_id"]},
        )
