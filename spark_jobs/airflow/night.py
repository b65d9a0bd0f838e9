"""Which night a DAG run is about, and which configuration and Spark it runs on; asked when a task runs."""

import os
from datetime import date
from typing import TypedDict

from airflow.sdk import Connection, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

NIGHTLY = "onceover_nightly"
"""The id of the DAG that runs nights."""
CONFIG_VARIABLE = "ONCEOVER_CONFIG"
SPARK_CONNECTION = "onceover_spark"
"""Optional: where it exists, it stands over what the configuration says about Spark."""


class Where(TypedDict):
    """The lake and the Spark that a task asks for: the fields that every request has."""

    config: str
    master: str
    conf: dict[str, str]


def where() -> Where:
    """As the machine that runs the task says."""
    master, conf = _spark()
    return Where(config=_config(), master=master, conf=conf)


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


def restage_of(context: Context) -> bool:
    """Whether the sources are to be listed again though an earlier attempt has fixed the inputs."""
    return bool(context["params"].get("restage", False))


def _config() -> str:
    path = os.environ.get(CONFIG_VARIABLE, "")
    if not path:
        raise AirflowFailException(
            f"no configuration: set {CONFIG_VARIABLE} to the path of an onceover.yaml where tasks run"
        )
    return path


def _spark() -> tuple[str, dict[str, str]]:
    """Master and settings of the connection: `local[*]`, `spark://…`, `sc://…`, `yarn`, `k8s://…` as host."""
    try:
        connection = Connection.get(SPARK_CONNECTION)
    except AirflowNotFoundException:
        return "", {}
    master = f"{connection.host}:{connection.port}" if connection.port else connection.host or ""
    return master, {name: str(value) for name, value in connection.extra_dejson.get("conf", {}).items()}
