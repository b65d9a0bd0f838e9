"""# Backfill: run published days again

Recomputes published days from what their sources hold now: late objects, corrected bytes, a changed
configuration. Days run again in order, and those after them only as far as their state changes. A day that
is as it should be is left alone: the same backfill again has nothing to do.

**How to use it:** trigger it with a dry run first. The task `plan` shows in its log, and as `plan` among its
XComs, which days would run again and why. Then trigger it without. Where `ONCEOVER_APPROVAL` is `required`,
somebody has to approve the plan under "Required Actions" before the first day runs.

**When something fails:** the days before the failed one are published and stay; those after it have not been
touched. Once the cause is gone clear the failed days, or trigger the backfill again: it continues where it
stopped.

Airflow's own backfill is another thing: it runs `onceover_nightly` for days that never ran, and does nothing
for those that did.
"""

import os
from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TriggerRule, chain

from spark_jobs.airflow.backfill import DAYS, FORM, PLAN, plan, run_day
from spark_jobs.airflow.tasks import POOL, report_task

IS_APPROVED = os.environ.get("ONCEOVER_APPROVAL", "") == "required"
TIMEOUT = timedelta(days=7)
"""How long the approval task waits before the backfill fails."""

with DAG(
    dag_id="onceover_backfill",
    description="Published days brought to what their sources hold now, in order.",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["onceover"],
    params=FORM,
) as backfill:
    planned = plan()
    days = run_day.expand(day=planned)
    report = report_task("Shows on the dashboard what became of the days.")
    good_backfill = EmptyOperator(
        task_id="good_backfill",
        pool=POOL,
        trigger_rule=TriggerRule.NONE_FAILED,
        doc_md="Represents days without changes.",
    )

    # plan → approve       optional: a person approves the plan before anything changes
    # → days               in order, each only after the one before it
    # → report             also when a day failed
    # both → good_backfill Airflow takes the state of a DAG run from its last tasks, and `report` runs always
    if IS_APPROVED:
        from airflow.providers.standard.operators.hitl import ApprovalOperator  # slow to load, for this alone

        approve = ApprovalOperator(
            task_id="approve",
            subject="A backfill of published days",
            body=f"{{{{ ti.xcom_pull(task_ids='{PLAN}', key='{PLAN}') }}}}",
            ignore_downstream_trigger_rules=True,
            response_timeout=TIMEOUT,
            doc_md="A person approves or rejects the plan. Rejecting skips every later task.",
        )
        chain(planned, approve, days)
    chain(days, report)
    chain([days, report], good_backfill)

__all__ = ["DAYS", "PLAN", "backfill"]
