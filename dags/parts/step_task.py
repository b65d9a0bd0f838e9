"""A step of the flow as an Airflow task: asks the driver, retries what can pass, explains what cannot."""

import logging
from datetime import timedelta
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

from airflow.sdk import Asset, AssetAlias, Context, XComArg, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from dags.parts.night import night_of, request_of
from spark_jobs.driver.client import run_step
from spark_jobs.driver.messages import StepAnswer
from spark_jobs.flow import STEPS, Step
from spark_jobs.protocol.errors import OnceoverError

LOG = logging.getLogger("onceover")
POOL = "onceover"
"""One slot: one task of a lake at a time, whatever DAG it belongs to."""
TABLES = AssetAlias("onceover_tables")
"""Stands for the assets of all tables, whose names are known once a night is published."""
RETRIES, FIRST_DELAY, LONGEST_DELAY = 3, timedelta(seconds=30), timedelta(minutes=10)


def existing_steps() -> tuple[Step, ...]:
    """The steps of the flow that this version has, without loading any."""
    return tuple(takewhile(lambda step: find_spec(f"spark_jobs.steps.{step}") is not None, STEPS))


def step_task(step: Step, why: str, *, goes_on: bool) -> XComArg:
    """The task of `step`; `why` is what its page says."""

    @task(
        task_id=step.value,
        doc_md=why,
        pool=POOL,
        retries=RETRIES,
        retry_delay=FIRST_DELAY,
        retry_exponential_backoff=True,
        max_retry_delay=LONGEST_DELAY,
        on_failure_callback=explain_failure,
        outlets=[TABLES] if step is Step.PUBLISH else [],
        show_return_value_in_logs=False,
    )
    def do() -> dict[str, Any]:
        return do_step(get_current_context(), step, goes_on=goes_on)

    return do()


def do_step(context: Context, step: Step, *, goes_on: bool) -> dict[str, Any]:
    """Has the step done; an error that trying again cannot help is final at once."""
    try:
        answer = run_step(request_of(context, step, goes_on=goes_on), log=LOG.info)
    except OnceoverError as error:
        if error.transient:
            raise
        raise AirflowFailException(str(error)) from None
    announce(context, answer)
    told = "is final" if answer.is_final else "goes on"
    LOG.info("run %s %s%s", answer.run_id, told, "" if answer.worked else "; nothing was left to do")
    return {"run_id": answer.run_id, "counts": dict(answer.counts)}


def announce(context: Context, answer: StepAnswer) -> None:
    """An event of each published table's asset: whoever waits for the table learns of run and snapshot."""
    for table, snapshot_id in answer.tables.items():
        asset = Asset(name=f"onceover.{table}", uri=f"onceover://{table.replace('.', '/')}")
        context["outlet_events"][TABLES].add(
            asset, extra={"run_id": answer.run_id, "snapshot_id": str(snapshot_id)}
        )


def explain_failure(context: Context) -> None:
    """The last lines of a failed task's log: what failed, and what a person can do."""
    LOG.error(
        "the night of %s stopped at '%s': %s\nOnce the cause is gone, clear this task: the run goes on where "
        "it stopped, and what is done is not done again.",
        _night(context),
        context["ti"].task_id,
        context.get("exception"),
    )


def _night(context: Context) -> str:
    try:
        return str(night_of(context))
    except AirflowFailException:
        return "no date"
