"""`report` as a task: the dashboard, from whatever the runs before it came to."""

import logging
from typing import Any

from airflow.sdk import TriggerRule, XComArg, get_current_context, task

from dags.parts.failure import final_unless_transient
from dags.parts.night import where
from dags.parts.task_settings import LAKE_TASK
from dags.ui.run_link import with_run_page
from spark_jobs.driver.client import ask
from spark_jobs.driver.messages import ReportRequest
from spark_jobs.flow import Step

LOG = logging.getLogger("onceover")


def report_task(why: str, *, run_of: str = "", trigger_rule: TriggerRule = TriggerRule.ALL_DONE) -> XComArg:
    """Shows the lake's runs; `run_of` names the task that knows which run this is about."""

    @task(task_id=Step.REPORT.value, doc_md=why, trigger_rule=trigger_rule, **LAKE_TASK)
    def do() -> dict[str, Any]:
        known = get_current_context()["ti"].xcom_pull(task_ids=run_of) if run_of else None
        run_id = str((known or {}).get("run_id", ""))
        with final_unless_transient():
            counts = ask(ReportRequest(**where(), run_id=run_id), log=LOG.info)
        return {"run_id": run_id, "counts": dict(counts)}

    return with_run_page(do())
