"""`report` as a task: updates the dashboard, whatever the outcome of the run."""

import logging
from typing import Any

from airflow.sdk import TriggerRule, XComArg, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from spark_jobs.airflow.failure import final_unless_transient
from spark_jobs.airflow.run_date import where
from spark_jobs.airflow.run_link import with_run_page
from spark_jobs.airflow.task_settings import LAKE_TASK, POOL
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


def run_succeeded_task(why: str, *, audit: Step) -> XComArg:
    """Fails if `audit` let the run pass although partitions are held: the others are published."""

    @task(task_id="run_succeeded", doc_md=why, pool=POOL)
    def do() -> None:
        known = get_current_context()["ti"].xcom_pull(task_ids=audit.value) or {}
        if known.get("counts", {}).get("critical"):
            raise AirflowFailException(
                "the run is final and published, but partitions are held behind offsets that no copy has: "
                "the log of `admit` and the table gaps name them. They are published once a copy brings the "
                "offsets; nothing has to be cleared here"
            )

    return do()
