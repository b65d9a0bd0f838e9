"""The configured retention as a task: what a lake can do without goes."""

import logging
from typing import Any

from airflow.sdk import XComArg, task

from spark_jobs.airflow.failure import final_unless_transient
from spark_jobs.airflow.run_date import where
from spark_jobs.airflow.task_settings import LAKE_TASK
from spark_jobs.driver.client import ask
from spark_jobs.driver.messages import ExpireRequest

LOG = logging.getLogger("onceover")


def expire_task(why: str) -> XComArg:
    """Removes old runs, staged objects and snapshots; without a retention in the configuration, nothing."""

    @task(task_id="expire", doc_md=why, **LAKE_TASK)
    def do() -> dict[str, Any]:
        with final_unless_transient():
            gone = ask(ExpireRequest(**where()), log=LOG.info)
        LOG.info("gone: %s", ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in gone.items()))
        return dict(gone)

    return do()
