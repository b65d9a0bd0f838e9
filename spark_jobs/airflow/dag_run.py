"""The run date of a DAG run, its configuration and its connections, resolved when a task runs."""

import json
import os
from datetime import date
from pathlib import Path
from typing import TypedDict

from airflow.sdk import Connection, Context
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

NIGHTLY = "onceover_nightly"
"""The id of the nightly DAG."""
CONFIG_VARIABLE = "ONCEOVER_CONFIG"
SPARK_CONNECTION = "onceover_spark"
"""Optional connection; it overrides the Spark settings of the configuration."""


class LakeConfig(TypedDict):
    """Lake, Spark and logins of a task: the fields that every request has."""

    config: str
    master: str
    conf: dict[str, str]
    connections: dict[str, str]


def lake_config() -> LakeConfig:
    """From the environment and the connections of the worker that runs the task."""
    config, (master, conf) = _config(), _spark()
    return LakeConfig(config=config, master=master, conf=conf, connections=_connections(config))


def run_date_of(context: Context) -> date:
    """The run date from the trigger parameters, else the start of the data interval."""
    chosen = context["params"].get("date")
    if chosen:
        return date.fromisoformat(chosen)
    start = context.get("data_interval_start")
    if start is None:
        raise AirflowFailException(
            'this DAG run has no run date: trigger it with a date, such as {"date": "2026-03-01"}'
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


def _connections(config: str) -> dict[str, str]:
    """Logins of the connections that sources name, each in the form of Airflow's environment variable.

    Airflow looks in its secrets backend, the environment and its database. A connection that none of them has
    is left out: only a task that connects needs it, and the error there names it.
    """
    from spark_jobs.config.load import load_settings  # noqa: PLC0415 - only tasks need the configuration

    named = [source.security for source in load_settings(Path(config)).sources if source.security.connection]
    logins = {each.connection_variable: _login(each.connection or "") for each in named}
    return {variable: login for variable, login in logins.items() if login}


def _login(name: str) -> str:
    """Login and password as JSON; empty if there is no such connection."""
    try:
        connection = Connection.get(name)
    except AirflowNotFoundException:
        return ""
    return json.dumps({"login": connection.login, "password": connection.password})
