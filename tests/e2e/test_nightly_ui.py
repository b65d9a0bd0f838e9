"""What Airflow's own pages show of the lake, to whom, and what they never show."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

import pytest

from spark_jobs.lake.ledger import list_runs
from spark_jobs.lake.stores import open_lake
from tests.e2e.airflow_runs import NIGHTLY, AirflowLake

pytestmark = pytest.mark.xdist_group("airflow")  # one process has all of these, and Airflow starts once


@dataclass(frozen=True)
class Page:
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: str


def _open(airflow_lake: AirflowLake, path: str, **headers: str) -> Page:
    """The page at `path`, sent as it is: nothing tidies it up on the way."""
    connection = HTTPConnection("127.0.0.1", airflow_lake.api.home.port, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return Page(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)


def _logged_in(airflow_lake: AirflowLake, path: str, **headers: str) -> Page:
    return _open(airflow_lake, path, Cookie=f"_token={airflow_lake.api._token}", **headers)


def _last_run(airflow_lake: AirflowLake) -> str:
    return list_runs(open_lake(airflow_lake.settings))[-1].run_id


def test_the_navigation_has_an_entry_that_leads_to_the_dashboard(airflow_lake: AirflowLake) -> None:
    [plugin] = [each for each in airflow_lake.api.get("plugins")["plugins"] if each["name"] == "onceover"]

    [entry] = plugin["external_views"]

    assert (entry["name"], entry["destination"]) == ("Onceover", "nav")
    assert "<title>Overview · Onceover</title>" in _logged_in(airflow_lake, entry["href"]).body
    assert _logged_in(airflow_lake, entry["icon"]).headers["content-type"] == "image/svg+xml"


def test_nobody_sees_it_without_logging_in(airflow_lake: AirflowLake) -> None:
    for headers in ({}, {"Cookie": "_token=made-up"}, {"Authorization": "Bearer made-up"}):
        page = _open(airflow_lake, "/onceover/dashboard/index.html", **headers)
        assert page.status in {401, 403}
        assert "Overview" not in page.body


def test_pages_load_nothing_from_elsewhere_and_are_what_they_say(airflow_lake: AirflowLake) -> None:
    page = _logged_in(airflow_lake, "/onceover/dashboard/index.html")
    script = _logged_in(airflow_lake, "/onceover/dashboard/assets/site.js")

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    for answer in (page, script):
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';")
        assert "frame-ancestors 'self'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "private" in answer.headers["cache-control"]


def test_what_a_browser_has_is_not_sent_again(airflow_lake: AirflowLake) -> None:
    path = "/onceover/dashboard/assets/site.js"
    tag = _logged_in(airflow_lake, path).headers["etag"]

    again = _logged_in(airflow_lake, path, **{"If-None-Match": tag})

    assert (again.status, again.body) == (304, "")


def test_the_data_docs_of_a_run_are_shown(airflow_lake: AirflowLake) -> None:
    page = _logged_in(airflow_lake, f"/onceover/dashboard/docs/{_last_run(airflow_lake)}/index.html")

    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    "path",
    [
        "ledger/{run}.json",
        "runs/{run}/inputs.json",
        "runs/{run}/admit/_done.json",
        "catalog/onceover.db",
        "dashboard/../ledger/{run}.json",
        "dashboard/..%2Fledger%2F{run}.json",
        "dashboard/%2e%2e/ledger/{run}.json",
        "dashboard/..%5c..%5conceover.yaml",
        "runs/{run}/audit/docs/index.html",
        "dashboard/docs/{run}/../../../ledger/{run}.json",
        "../../onceover.yaml",
        "%2Fetc%2Fpasswd",
        "dashboard/%00index.html",
        "dashboard/",
        "dashboard",
    ],
)
def test_nothing_else_of_the_lake_is_served_by_whatever_path(airflow_lake: AirflowLake, path: str) -> None:
    page = _logged_in(airflow_lake, f"/onceover/{path.format(run=_last_run(airflow_lake))}")

    assert page.status == 404
    assert page.body in {'{"detail":"no such page"}', '{"detail":"Not Found"}'}


def test_a_task_leads_to_its_run_on_the_dashboard(airflow_lake: AirflowLake) -> None:
    run_id = quote(airflow_lake.dag_runs[0])
    runs = list_runs(open_lake(airflow_lake.settings))
    # A task that other tests cleared after a backfill of its day leads to the backfill's run.
    of_its_day = {line.run_id for line in runs if line.day == runs[0].day}

    for task in ("publish", "report"):
        links: dict[str, Any] = airflow_lake.api.get(
            f"dags/{NIGHTLY}/dagRuns/{run_id}/taskInstances/{task}/links"
        )
        address = links["extra_links"]["Dashboard"]
        page, _, run = address.partition("#run=")
        assert page == f"{airflow_lake.api.home.url}/onceover/dashboard/run.html"
        assert run in of_its_day
    page = address.removeprefix(airflow_lake.api.home.url).partition("#")[0]
    assert _logged_in(airflow_lake, page).status == 200


def test_the_dashboard_opens_inside_of_airflow_in_a_real_browser(airflow_lake: AirflowLake) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no Chromium here; install the package chromium (Debian: apt install chromium)")
    arguments = [chromium, airflow_lake.api.home.url, airflow_lake.api._token]

    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.look_at_ui", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert "/plugin/onceover" in seen["address"]
    assert seen["overview"]
    assert seen["run"]
    assert seen["complaints"] == []
