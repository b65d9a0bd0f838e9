"""The plugin: an entry "Onceover" in Airflow's navigation, and the site behind it.

Every process of Airflow loads plugins, so the server itself is imported with the first request only.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from importlib import import_module
from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin

from spark_jobs.airflow.links import FIRST_PAGE, PREFIX

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
