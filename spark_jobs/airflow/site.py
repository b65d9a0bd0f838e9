"""Serves the lake's dashboard and Data Docs to users who may read the nightly DAG.

Nothing else of the lake is served: neither records nor runs. The content security policy allows only files
of the site itself and no inline scripts.
"""

import os
from functools import cache
from pathlib import Path
from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, Header, HTTPException, Response
from fastapi.responses import RedirectResponse

from spark_jobs.airflow.dag_run import CONFIG_VARIABLE, NIGHTLY
from spark_jobs.airflow.plugin import FIRST_PAGE, PREFIX
from spark_jobs.config.load import load_settings
from spark_jobs.lake.object_store import ObjectStore, key_problem
from spark_jobs.lake.stores import open_lake

SERVED = "dashboard/"
"""The dashboard with its Data Docs; no other file of the lake is served."""
CONTENT_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
}
UNKNOWN = "application/octet-stream"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-cache",
}
app = FastAPI(title="Onceover", docs_url=None, redoc_url=None, openapi_url=None)


def is_served(path: str) -> bool:
    """Whether `path` is the key of a file to serve; no key can leave the folder."""
    return path.startswith(SERVED) and not key_problem(path)


def content_type(path: str) -> str:
    """The content type by file extension, so that a browser does not guess."""
    return CONTENT_TYPES.get(path.rpartition(".")[2], UNKNOWN)


def may_see(user: Annotated[BaseUser, Depends(get_user)]) -> BaseUser:
    """Users who may read the nightly DAG may read the dashboard."""
    if not get_auth_manager().is_authorized_dag(method="GET", details=DagDetails(id=NIGHTLY), user=user):
        raise HTTPException(403, f"you may not read the DAG {NIGHTLY}, and therefore not its dashboard")
    return user


@app.get("/", dependencies=[Depends(may_see)])
def first_page() -> Response:
    return RedirectResponse(f"{PREFIX}/{FIRST_PAGE}")


@app.get("/{path:path}", dependencies=[Depends(may_see)])
def page(path: str, if_none_match: Annotated[str, Header()] = "") -> Response:
    """One file of the site; what a browser has already is not sent again."""
    found = lake().stat(path) if is_served(path) else None
    if found is None:
        raise HTTPException(404, _missing(path))
    headers = {**HEADERS, "ETag": f'"{found.version}"'}
    if if_none_match == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(lake().read(path), media_type=content_type(path), headers=headers)


def _missing(path: str) -> str:
    if path == FIRST_PAGE:
        return "there is no dashboard yet: the first run or `onceover dashboard` creates it"
    return "no such page"


@cache
def lake() -> ObjectStore:
    """The lake of the configuration that this server was started with."""
    config = os.environ.get(CONFIG_VARIABLE, "")
    if not config:
        raise HTTPException(503, f"set {CONFIG_VARIABLE} where Airflow's API server runs")
    return open_lake(load_settings(Path(config)))
