"""# Backfill: run published dates again

Recomputes published dates from the current content of their sources: late objects, corrected bytes, a changed
configuration. Dates run again in order, and later ones only while their state changes. A date without changes
is skipped, so the same backfill has nothing to do when it is repeated.

**How to use it:** trigger it with a dry run first. The task `plan` shows in its log, and as `plan` among its
XComs, which dates would run again and why. Then trigger it without *Dry run*. If `ONCEOVER_APPROVAL` is
`required`, a person approves the plan under "Required Actions" before the first date runs.

**When something fails:** the dates before the failed one are published; later ones are unchanged. Remove the
cause, then clear the failed dates or trigger the backfill again: it continues where it stopped.

Airflow's own backfill is different: it runs `onceover_nightly` for dates that never ran, and does nothing for
dates whose run is final.
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
    description="Runs published dates again, in order, with the current content of their sources.",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    tags=["onceover"],
    params=FORM,
) as backfill:
    planned = plan()
    days = run_day.expand(day=planned)
    report = report_task("Updates the dashboard; also when a date failed.")
    backfill_succeeded = EmptyOperator(
        task_id="backfill_succeeded",
        pool=POOL,
        trigger_rule=TriggerRule.NONE_FAILED,
        doc_md="Succeeds if every date has succeeded or was skipped, and the dashboard is updated.",
    )

    # plan → approve             optional: a person approves the plan before anything changes
    # → days                     in order, each only after the one before it
    # → report                   also when a date failed
    # both → backfill_succeeded  Airflow takes the state of a DAG run from its last tasks, and `report` always
    #                            runs
    if IS_APPROVED:
        from airflow.providers.standard.operators.hitl import ApprovalOperator  # slow to load, for this alone

        approve = ApprovalOperator(
            task_id="approve",
            subject="A backfill of published dates",
            body=f"{{{{ ti.xcom_pull(task_ids='{PLAN}', key='{PLAN}') }}}}",
            ignore_downstream_trigger_rules=True,
            response_timeout=TIMEOUT,
            doc_md="A person approves or rejects the plan. Rejecting skips every later task.",
        )
        chain(planned, approve, days)
    chain(days, report)
    chain([days, report], backfill_succeeded)

__all__ = ["DAYS", "PLAN", "backfill"]
