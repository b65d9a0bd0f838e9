"""Which files of a lake are shown in a browser: those of the dashboard, by no trick another one."""

import pytest

from spark_jobs.airflow.plugin import run_page
from spark_jobs.airflow.site import content_type, is_served


@pytest.mark.parametrize(
    "path",
    [
        "dashboard/index.html",
        "dashboard/data/runs/2026.js",
        "dashboard/docs/2026-03-01-3f9a/index.html",
    ],
)
def test_pages_are_served(path: str) -> None:
    assert is_served(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "dashboard",
        "dashboard/",
        "/dashboard/index.html",
        "dashboard//index.html",
        "dashboard/../ledger/a.json",
        "dashboard/./index.html",
        "dashboardx/index.html",
        "x/dashboard/index.html",
        "runs/a/audit/docs/index.html",
        "runs/a/materialise/x.parquet",
        "dashboard/a\x00b",
        "dashboard/a\nb",
        "ledger/a.json",
        "objects/ab/abcd",
    ],
)
def test_nothing_else_is(path: str) -> None:
    assert not is_served(path)


def test_what_a_file_is_follows_from_its_ending_alone() -> None:
    assert content_type("a/b.html") == "text/html; charset=utf-8"
    assert content_type("a/b.js") == "text/javascript; charset=utf-8"
    assert content_type("a/b.parquet") == content_type("a/html") == "application/octet-stream"


def test_a_run_has_a_page_and_no_run_the_overview() -> None:
    assert run_page("2026-03-01-3f9a") == "/onceover/dashboard/run.html#run=2026-03-01-3f9a"
    assert run_page("") == "/onceover/dashboard/index.html"
