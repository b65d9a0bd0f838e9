"""What all tasks that work on a lake have in common: the pool, the retries, the explained failure."""

from datetime import timedelta
from typing import Any

from spark_jobs.airflow.failure import explain_failure

POOL = "onceover"
"""One slot: one task of a lake at a time, whatever DAG it belongs to."""
LAKE_TASK: dict[str, Any] = {
    "pool": POOL,
    "retries": 3,
    "retry_delay": timedelta(seconds=30),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=10),
    "on_failure_callback": explain_failure,
    "show_return_value_in_logs": False,
}
