"""Which night a DAG run is about, and which configuration and Spark it runs on; asked when a task runs."""

import os
from datetime import date

from airflow.sdk import Connection, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from spark_jobs.driver.messages import StepRequest
from spark_jobs.flow import Step

CONFIG_VARIABLE = "ONCEOVER_CONFIG"
SPARK_CONNECTION = "onceover_spark"
"""Optional: where it exists, it stands over what the configuration says about Spark."""


def request_of(context: Context, step: Step, *, goes_on: bool) -> StepRequest:
    """What to ask of the driver for `step` of this DAG run."""
    master, conf = _spark()
    return StepRequest(
        config=_config(), day=night_of(context), step=step, goes_on=goes_on, master=master, conf=conf
    )


def night_of(context: Context) -> date:
    """The night that somebody chose, or else the one that the schedule means."""
    chosen = context["params"].get("date")
    if chosen:
        return date.fromisoformat(chosen)
    start = context.get("data_interval_start")
    if start is None:
        raise AirflowFailException(
            'this run belongs to no night: trigger it with a date, such as {"date": "2026-03-01"}'
        )
    return date(start.year, start.month, start.day)


def _config() -> str:
    path = os.environ.get(CONFIG_VARIABLE, "")
    if not path:
        raise AirflowFailException(
            f"no configuration: set {CONFIG_VARIABLE} to the path of an onceover.yaml where tasks run"
        )
    return path


def _spark() -> tuple[str, dict[str, str]]:
    """Master and settings of the connection: `local[*]`, `spark://host`, `yarn` or `k8s://…` as its host."""
    try:
        connection = Connection.get(SPARK_CONNECTION)
    except AirflowNotFoundException:
        return "", {}
    master = f"{connection.host}:{connection.port}" if connection.port else connection.host or ""
    return master, {name: str(value) for name, value in connection.extra_dejson.get("conf", {}).items()}
