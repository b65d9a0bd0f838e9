"""Where the lake's pages are found in Airflow; one place says it for plugin, links and server."""

from urllib.parse import quote

PREFIX = "/onceover"
FIRST_PAGE = "dashboard/index.html"


def run_page(run_id: str) -> str:
    """The page of one run, below Airflow's own address; the overview where no run is known."""
    return f"{PREFIX}/dashboard/run.html#run={quote(run_id)}" if run_id else f"{PREFIX}/{FIRST_PAGE}"
