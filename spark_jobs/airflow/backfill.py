"""The tasks of a backfill: its plan, then its days one after the other."""

import logging
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

from airflow.sdk import Context, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from spark_jobs.airflow.dag_run import where
from spark_jobs.airflow.tasks import LAKE_TASK, TABLES, announce, final_unless_transient, look_again_later
from spark_jobs.driver.client import ask
from spark_jobs.driver.messages import DaysRequest, PlanRequest
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest, UnfitRequest

# Texts of a backfill: its trigger form parsed, its plan as Markdown.


def backfill_of(params: Mapping[str, Any]) -> BackfillRequest:
    """The request that the form describes; errors name the form's fields."""
    first = date.fromisoformat(params["from"])
    last = date.fromisoformat(params["to"] or params["from"])
    if last < first:
        raise UnfitRequest(f"From ({first}) is after To ({last}): the range is empty")
    return BackfillRequest(
        first=first,
        last=last,
        topics=tuple(params["topics"]),
        sources=tuple(params["sources"]),
        reason=params["reason"],
    )


def as_markdown(title: str, days: Sequence[Mapping[str, Any]]) -> str:
    """The plan for people: a line per day with its reasons."""
    lines = [f"- {each['day']}: {_what(each)}" for each in days]
    return "\n".join([title, "", *(lines or ["No day is affected: there is no run yet."])])


def _what(day: Mapping[str, Any]) -> str:
    reasons = "; ".join(day["reasons"])
    if day["changes"]:
        return f"**runs again**, {reasons}"
    return f"may run again, {reasons}" if reasons else "stays as it is"


LOG = logging.getLogger("onceover")
PLAN = "plan"
DAYS = "days"
ENDED_WELL = {"success", "skipped"}
ENDED_BADLY = {"failed", "upstream_failed"}


@task.short_circuit(
    task_id=PLAN,
    doc_md="Which days would run again, and why; nothing is written. A dry run ends here, and so does a "
    "backfill that has nothing to do.",
    ignore_downstream_trigger_rules=True,
    **LAKE_TASK,
)
def plan() -> list[str]:
    """The days to run, empty to end here; the plan itself is in the log and in the XCom `plan`."""
    context = get_current_context()
    with final_unless_transient():
        request = backfill_of(context["params"])
        found = ask(PlanRequest(**where(), backfill=request.to_plain()), log=LOG.info)
    text = as_markdown(request.reported, found["days"])
    LOG.info("%s", text)
    context["ti"].xcom_push(key=PLAN, value=text)
    more_steps_follow = found["changes"] and not context["params"]["dry_run"]
    return [each["day"] for each in found["days"]] if more_steps_follow else []


@task(
    task_id=DAYS,
    doc_md="One day as a whole: its inputs fixed anew, then all its steps. Skipped where the days before it "
    "have left its state as it was. A day waits for the one before it, and fails with it.",
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
            **where(),
            backfill=backfill_of(context["params"]).to_plain(),
            after=before[-1] if before else "",
            until="" if is_last else day,
        )
        runs = ask(request, log=LOG.info)["runs"]
    if not runs:
        raise AirflowSkipException(f"{day} is as it should be: nothing was left to do")
    for run in runs:
        announce(context, run["run_id"], run["tables"])
    return {"run_id": runs[-1]["run_id"], "runs": [run["run_id"] for run in runs]}


def wait_for(context: Context, before: Sequence[str]) -> None:
    """Ends this try unless all days before have ended well: their order is what a backfill is about."""
    ti = context["ti"]
    known = ti.get_task_states(dag_id=ti.dag_id, task_ids=[DAYS], run_ids=[ti.run_id])[ti.run_id]
    for number, day in enumerate(before):
        state = known.get(f"{DAYS}_{number}")
        if state in ENDED_BADLY:
            raise AirflowFailException(f"{day} has failed, and no later day can run before it: clear both")
        if state not in ENDED_WELL:
            raise look_again_later(f"{day} comes before this day and is {state}")


# The form that a backfill is triggered with.


FORM = {
    "from": Param(
        type="string",
        format="date",
        title="From",
        description="The first day that shall hold what its sources hold now, such as 2026-03-01.",
    ),
    "to": Param(
        None,
        type=["null", "string"],
        format="date",
        title="To",
        description="The last such day; empty for the first alone. Later days follow as far as they must.",
    ),
    "topics": Param(
        [],
        type="array",
        items={"type": "string", "minLength": 1},
        title="Topics",
        description="Names or shell patterns such as orders*, one per line; empty for all.",
    ),
    "sources": Param(
        [],
        type="array",
        items={"type": "string", "minLength": 1},
        title="Sources",
        description="Names of sources in the configuration, one per line; empty for all.",
    ),
    "reason": Param(
        type="string",
        minLength=3,
        title="Reason",
        description="Why: a sentence that is kept with the runs.",
    ),
    "dry_run": Param(
        True,
        type="boolean",
        title="Dry run",
        description="Shows the plan and ends. Without it the days run, once approved where that is required.",
    ),
}
