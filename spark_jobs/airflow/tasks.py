"""The tasks of the DAGs: sources, steps, report, expiry, with their pool, retries, order and deadline.

A task sends a request to the driver. Only transient errors are retried; the last log lines say what to do.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Asset, AssetAlias, Context, TriggerRule, XComArg, get_current_context, task
from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

from spark_jobs.airflow.dag_run import NIGHTLY, lake_config, restage_of, run_date_of
from spark_jobs.airflow.plugin import with_run_page
from spark_jobs.driver.client import ask, run_step
from spark_jobs.driver.protocol import ExpireRequest, FetchRequest, ReportRequest, SourcesRequest, StepRequest
from spark_jobs.flow import LAST_OF_RUN, Step
from spark_jobs.kafka.errors import OnceoverError

LOG = logging.getLogger("onceover")
POOL = "onceover"
"""One slot: one task of a lake at a time, whatever DAG it belongs to."""
TABLES = AssetAlias("onceover_tables")
"""The alias of all table assets, whose names are known only when a run is published."""
CHECK_INTERVAL = timedelta(seconds=10)
UNFINISHED = ("running", "queued")
DEADLINE_VARIABLE, DEADLINE_HOURS = "ONCEOVER_DEADLINE_HOURS", "4"
"""A run that is queued at 03:00 is reported at 07:00 at the latest."""


@contextmanager
def final_unless_transient() -> Iterator[None]:
    """Fails the task without retries, unless the error is transient."""
    try:
        yield
    except OnceoverError as error:
        if error.transient:
            raise
        raise AirflowFailException(str(error)) from None


def explain_failure(context: Context) -> None:
    """Logs what failed and what to do, as the last lines of a failed task."""
    LOG.error(
        "%s stopped at '%s': %s\nOnce the cause is gone, clear this task: the run continues where it "
        "stopped, and what is done is not done again.",
        _what(context),
        context["ti"].task_id,
        context.get("exception"),
    )


def _what(context: Context) -> str:
    if context["ti"].dag_id != NIGHTLY:
        return f"this run of {context['ti'].dag_id}"
    try:
        return f"the run of {run_date_of(context)}"
    except AirflowFailException:
        return "the run without a date"


LAKE_TASK: dict[str, Any] = {
    "pool": POOL,
    "retries": 3,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=10),
    "on_failure_callback": explain_failure,
    "show_return_value_in_logs": False,
}


def step_task(step: Step, why: str) -> XComArg:
    """The task of `step`; `why` is its documentation."""
    outlets = [TABLES] if step is Step.PUBLISH else []

    @task(task_id=step.value, doc_md=why, outlets=outlets, **LAKE_TASK)
    def do() -> dict[str, Any]:
        return do_step(get_current_context(), step)

    return with_run_page(do()) if step is Step.PUBLISH else do()


def do_step(context: Context, step: Step) -> dict[str, Any]:
    """Runs the step in the driver; the run becomes final with the last one."""
    more_steps_follow = step is not LAST_OF_RUN
    with final_unless_transient():
        restage = step is Step.STAGE and restage_of(context)
        request = StepRequest(
            **lake_config(),
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


def reschedule(why: str) -> Exception:
    """Reschedules the task: the attempt is not counted, and worker and pool slot are free meanwhile."""
    LOG.info("%s; checks again in %d s", why, CHECK_INTERVAL.seconds)
    later: Callable[[datetime], Exception] = AirflowRescheduleException  # Airflow leaves it unannotated
    return later(datetime.now(UTC) + CHECK_INTERVAL)


def wait_for_earlier_runs(context: Context) -> None:
    """Keeps runs in order, because Airflow's own backfill starts several at once.

    A failed run does not block: the next one takes its objects.
    """
    for state in UNFINISHED:
        earlier = context["ti"].get_previous_dagrun(state)
        if earlier is not None:
            raise reschedule(f"{earlier.run_id} precedes this run and is {state}")


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
        return list(ask(SourcesRequest(**lake_config()), log=LOG.info)["sources"])


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
            **lake_config(), day=run_date_of(context), source=source, restage=restage_of(context)
        )
        counts = ask(request, log=LOG.info)
    LOG.info("%s: %s", source, ", ".join(f"{count:,} {name}" for name, count in counts.items()))
    return dict(counts)


def source_tasks() -> XComArg:
    """One task per source, so that a slow or broken source has a name."""
    return fetch.expand(source=list_sources())


def report_task(why: str, *, run_of: str = "", trigger_rule: TriggerRule = TriggerRule.ALL_DONE) -> XComArg:
    """Updates the dashboard; `run_of` is the task whose XCom has the run id."""

    @task(task_id=Step.REPORT.value, doc_md=why, trigger_rule=trigger_rule, **LAKE_TASK)
    def do() -> dict[str, Any]:
        known = get_current_context()["ti"].xcom_pull(task_ids=run_of) if run_of else None
        run_id = str((known or {}).get("run_id", ""))
        with final_unless_transient():
            counts = ask(ReportRequest(**lake_config(), run_id=run_id), log=LOG.info)
        return {"run_id": run_id, "counts": dict(counts)}

    return with_run_page(do())


def run_succeeded_task(why: str, *, audit: Step) -> XComArg:
    """Fails if `audit` let the run pass although partitions are held: the others are published."""

    @task(task_id="run_succeeded", doc_md=why, pool=POOL)
    def do() -> None:
        known = get_current_context()["ti"].xcom_pull(task_ids=audit.value) or {}
        if known.get("counts", {}).get("critical"):
            raise AirflowFailException(
                "the run is final and published, but partitions are held behind offsets that no copy has: "
                "the log of `admit` and the table gaps name them. They are published once a copy has the "
                "offsets; no task has to be cleared"
            )

    return do()


def expire_task(why: str) -> XComArg:
    """Removes old runs, staged objects and snapshots; without a retention in the configuration, nothing."""

    @task(task_id="expire", doc_md=why, **LAKE_TASK)
    def do() -> dict[str, Any]:
        with final_unless_transient():
            gone = ask(ExpireRequest(**lake_config()), log=LOG.info)
        LOG.info(
            "removed: %s", ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in gone.items())
        )
        return dict(gone)

    return do()


def deadline() -> DeadlineAlert:
    """Some hours after the run was queued, the executor runs `report_late`; no triggerer is needed."""
    hours = float(os.environ.get(DEADLINE_VARIABLE, DEADLINE_HOURS))
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(hours=hours),
        callback=SyncCallback(report_late, {"hours": hours}),
        name="late",
    )


def report_late(hours: float, context: dict[str, Any]) -> None:
    """Logs what an operator needs to know about a late run."""
    LOG.error(
        "the run %s of %s is not finished %g hours after it was queued. It continues; nothing is lost. The "
        "log of the running task shows its progress; a task that is queued in the pool 'onceover' waits for "
        "another run. %s sets the time.",
        context["dag_run"]["dag_run_id"],
        context["dag_run"]["dag_id"],
        hours,
        DEADLINE_VARIABLE,
    )
