"""The tasks of a backfill: the trigger form, the plan, then its dates in order."""

import logging
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from airflow.sdk import Context, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from spark_jobs.airflow.dag_run import lake_config
from spark_jobs.airflow.tasks import LAKE_TASK, TABLES, announce, final_unless_transient, reschedule
from spark_jobs.driver.client import ask
from spark_jobs.driver.protocol import DaysRequest, PlanRequest
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest, UnfitRequest

LOG = logging.getLogger("onceover")
PLAN = "plan"
DAYS = "days"
ENDED_WELL = {"success", "skipped"}
ENDED_BADLY = {"failed", "upstream_failed"}
FORM = {
    "from": Param(
        type="string",
        format="date",
        title="From",
        description="The first date to run again from what its sources have now, such as 2026-03-01.",
    ),
    "to": Param(
        None,
        type=["null", "string"],
        format="date",
        title="To",
        description="The last date to run again; empty for one date. Later dates follow if they change.",
    ),
    "topics": Param(
        [],
        type=["null", "array"],
        items={"type": "string", "minLength": 1},
        title="Topics",
        description="Names or shell patterns such as orders*, one per line; empty for all.",
    ),
    "sources": Param(
        [],
        type=["null", "array"],
        items={"type": "string", "minLength": 1},
        title="Sources",
        description="Names of sources in the configuration, one per line; empty for all.",
    ),
    "reason": Param(
        type="string",
        minLength=3,
        title="Reason",
        description="Why: a sentence that is stored with the runs.",
    ),
    "dry_run": Param(
        True,
        type="boolean",
        title="Dry run",
        description="Only shows the plan. Without it the dates run, after approval if that is required.",
    ),
}


def backfill_of(params: Mapping[str, Any]) -> BackfillRequest:
    """The request from the fields of the form; errors name these fields."""
    first = date.fromisoformat(params["from"])
    last = date.fromisoformat(params["to"] or params["from"])
    if last < first:
        raise UnfitRequest(f"From ({first}) is after To ({last}): the range is empty")
    return BackfillRequest(
        first=first,
        last=last,
        topics=tuple(params["topics"] or ()),
        sources=tuple(params["sources"] or ()),
        reason=params["reason"],
    )


def as_markdown(title: str, days: Sequence[Mapping[str, Any]]) -> str:
    """The plan as Markdown: a line per date with its reasons."""
    lines = [f"- {each['day']}: {_what(each)}" for each in days]
    return "\n".join([title, "", *(lines or ["No date is affected: there is no run yet."])])


def _what(day: Mapping[str, Any]) -> str:
    reasons = "; ".join(day["reasons"])
    if day["changes"]:
        return f"**runs again**, {reasons}"
    return f"may run again, {reasons}" if reasons else "stays as it is"


@task.short_circuit(
    task_id=PLAN,
    doc_md="Lists which dates would run again, and why; writes nothing. A dry run ends here, and so does a "
    "backfill without changes.",
    ignore_downstream_trigger_rules=True,
    **LAKE_TASK,
)
def plan() -> list[str]:
    """The dates to run, empty to end here; the plan is in the log and in the XCom `plan`."""
    context = get_current_context()
    with final_unless_transient():
        request = backfill_of(context["params"])
        found = ask(PlanRequest(**lake_config(), backfill=request.to_plain()), log=LOG.info)
    text = as_markdown(request.reported, found["days"])
    LOG.info("%s", text)
    context["ti"].xcom_push(key=PLAN, value=text)
    if context["params"]["dry_run"] or not found["changes"]:
        return []
    return [each["day"] for each in found["days"]]


@task(
    task_id=DAYS,
    doc_md="Runs all steps of one date with new inputs. Skipped if the dates before it did not change its "
    "state. A date waits for the one before it, and fails with it.",
    map_index_template="{{ task.op_kwargs['day'] }}",
    max_active_tis_per_dagrun=1,
    outlets=[TABLES],
    **LAKE_TASK,
)
def run_day(day: str) -> dict[str, Any]:
    context = get_current_context()
    planned: list[str] = context["ti"].xcom_pull(task_ids=PLAN)
    before, is_last = planned[: planned.index(day)], day == planned[-1]
    wait_for(context, before)
    with final_unless_transient():
        request = DaysRequest(
            **lake_config(),
            backfill=backfill_of(context["params"]).to_plain(),
            after=before[-1] if before else "",
            until="" if is_last else day,
        )
        runs = ask(request, log=LOG.info)["runs"]
    if not runs:
        raise AirflowSkipException(f"{day} has not changed: nothing was left to do")
    for run in runs:
        announce(context, run["run_id"], run["tables"])
    return {"run_id": runs[-1]["run_id"], "runs": [run["run_id"] for run in runs]}


def wait_for(context: Context, before: Sequence[str]) -> None:
    """Reschedules the task until all earlier dates have succeeded, since a backfill runs in order."""
    ti = context["ti"]
    known = ti.get_task_states(dag_id=ti.dag_id, task_ids=[DAYS], run_ids=[ti.run_id])[ti.run_id]
    for number, day in enumerate(before):
        state = known.get(f"{DAYS}_{number}")
        if state in ENDED_BADLY:
            raise AirflowFailException(f"{day} has failed, and no later day can run before it: clear both")
        if state not in ENDED_WELL:
            raise reschedule(f"{day} is before this date and is {state}")
