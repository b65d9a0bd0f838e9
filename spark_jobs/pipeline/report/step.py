"""`report`: updates the data-quality dashboard; it needs no Spark and also shows failed runs.

The site shows the results of runs: it is not part of a run, and a run is final without it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from spark_jobs.config.settings import Settings
from spark_jobs.lake.errors import StorageError
from spark_jobs.lake.iceberg.holdings import topic_tables
from spark_jobs.lake.identity import open_at_home
from spark_jobs.pipeline.context import StepResult
from spark_jobs.pipeline.report.metrics import publish
from spark_jobs.pipeline.report.site import build_site
from spark_jobs.pipeline.report.site_files import FIRST_PAGE, SiteFiles
from spark_jobs.pipeline.report.table_queries import table_view

TABLES = "tables"
OnProgress = Callable[[str], None]


def report(
    settings: Settings, *, run_id: str | None = None, on_progress: OnProgress = lambda _: None
) -> StepResult:
    """Updates the metrics and the site of the lake; the run `run_id` is read again in any case."""
    lake = open_at_home(settings)
    publish(settings, lake, run_id=run_id)
    runs = build_site(lake, on_progress, anew=run_id)
    with suppress(StorageError):  # a catalog that does not answer: the site shows what it showed before
        show_tables(settings, SiteFiles(lake))
    page = lake.url_of(SiteFiles(lake).key(FIRST_PAGE))
    return StepResult(outputs=(), counts={"runs": runs}, messages=(f"the dashboard is at {page}",))


def show_tables(settings: Settings, site: SiteFiles) -> None:
    """Which table each topic has; those that the site shows already are not loaded again."""
    shown: dict[str, Any] = site.read_data(TABLES) or {}
    names = {each["name"] for each in shown.values()}
    found = dict(table_view(settings, table) for table in topic_tables(settings, known=names))
    site.put_data([(TABLES, {**shown, **found})])
