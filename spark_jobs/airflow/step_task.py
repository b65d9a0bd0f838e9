"""A step of the flow as an Airflow task: asks the driver for it and announces what it has published."""

import logging
from collections.abc import Mapping
from typing import Any

from airflow.sdk import Asset, AssetAlias, Context, XComArg, get_current_context, task

from spark_jobs.airflow.failure import final_unless_transient
from spark_jobs.airflow.night import night_of, restage_of, where
from spark_jobs.airflow.run_link import with_run_page
from spark_jobs.airflow.task_settings import LAKE_TASK
from spark_jobs.driver.client import run_step
from spark_jobs.driver.messages import StepRequest
from spark_jobs.flow import LAST_OF_RUN, Step

LOG = logging.getLogger("onceover")
TABLES = AssetAlias("onceover_tables")
"""Stands for the assets of all tables, whose names are known once a night is published."""


def step_task(step: Step, why: str) -> XComArg:
    """The task of `step`; `why` is what its page says."""
    outlets = [TABLES] if step is Step.PUBLISH else []

    @task(task_id=step.value, doc_md=why, outlets=outlets, **LAKE_TASK)
    def do() -> dict[str, Any]:
        return do_step(get_current_context(), step)

    return with_run_page(do()) if step is Step.PUBLISH else do()


def do_step(context: Context, step: Step) -> dict[str, Any]:
    """Has the step done; the run becomes final with the last one."""
    goes_on = step is not LAST_OF_RUN
    with final_unless_transient():
        restage = step is Step.STAGE and restage_of(context)
        request = StepRequest(**where(), day=night_of(context), step=step, goes_on=goes_on, restage=restage)
        answer = run_step(request, log=LOG.info)
    announce(context, answer.run_id, answer.tables)
    told = "is final" if answer.is_final else "goes on"
    LOG.info("run %s %s%s", answer.run_id, told, "" if answer.worked else "; nothing was left to do")
    return {"run_id": answer.run_id, "counts": dict(answer.counts)}


def announce(context: Context, run_id: str, tables: Mapping[str, Mapping[str, str]]) -> None:
    """An event of each published table's asset: whoever waits for the table learns of run and snapshot.

    An asset is named by its table and stands where the table stands, so OpenLineage knows it as a dataset.
    """
    for name, table in tables.items():
        context["outlet_events"][TABLES].add(
            Asset(name=f"onceover.{name}", uri=table["location"]),
            extra={"run_id": run_id, "snapshot_id": table["snapshot_id"]},
        )
