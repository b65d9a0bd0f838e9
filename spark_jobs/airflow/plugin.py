"""The dashboard in Airflow: its entry in the navigation, its address, and the button from a task to its run.

Every process of Airflow loads plugins, so the server of the site is imported with the first request only.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperator, BaseOperatorLink, XComArg
from airflow.sdk.configuration import conf
from airflow.sdk.execution_time.xcom import XCom
from airflow.sdk.plugins_manager import AirflowPlugin
from airflow.sdk.types import TaskInstanceKey

PREFIX = "/onceover"
FIRST_PAGE = "dashboard/index.html"


def run_page(run_id: str) -> str:
    """The page of one run, below Airflow's own address; the overview where no run is known."""
    return f"{PREFIX}/dashboard/run.html#run={quote(run_id)}" if run_id else f"{PREFIX}/{FIRST_PAGE}"


def with_run_page(done: XComArg) -> XComArg:
    """The task, with a button to the run that it returns as `run_id`."""
    for operator, _ in done.iter_references():
        operator.operator_extra_links = (RunPage(),)
    return done


class RunPage(BaseOperatorLink):
    """Links to the page of the task's run, or to the overview if it has no run."""

    name = "Dashboard"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 — Airflow's own names
        reported = XCom.get_value(ti_key=ti_key, key="return_value") or {}
        base = str(conf.get("api", "base_url", fallback="")).rstrip("/")
        return f"{base}{run_page(str(reported.get('run_id', '')))}"


Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
ENTRY = {
    "name": "Onceover",
    "href": f"{PREFIX}/{FIRST_PAGE}",
    "url_route": "onceover",
    "destination": "nav",
    "nav_top_level": True,
    "icon": f"{PREFIX}/dashboard/assets/icon.svg",
}


async def site(scope: Scope, receive: Receive, send: Send) -> None:
    """The site as an ASGI application."""
    await import_module("spark_jobs.airflow.site").app(scope, receive, send)


SERVER = {"app": site, "url_prefix": PREFIX, "name": "Onceover"}


class OnceoverPlugin(AirflowPlugin):
    """The attributes that Airflow reads from a plugin."""

    name = "onceover"
    fastapi_apps = [SERVER]  # noqa: RUF012 — as Airflow declares it
    external_views = [ENTRY]  # noqa: RUF012 — likewise
