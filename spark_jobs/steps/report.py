"""`report`: the data-quality dashboard, brought up to date; it needs no Spark and also tells of failures.

The site shows what runs have left, so it comes after them: it is no part of what a run yields, and a run is
final without it.
"""

from collections.abc import Callable

from spark_jobs.config.settings import Settings
from spark_jobs.metrics.publish import publish
from spark_jobs.reporting.site import build_site
from spark_jobs.reporting.site_files import FIRST_PAGE, SiteFiles
from spark_jobs.steps.context import StepResult
from spark_jobs.storage.stores import open_lake

Tell = Callable[[str], None]


def report(settings: Settings, *, run_id: str | None = None, tell: Tell = lambda _: None) -> StepResult:
    """Bring metrics and site of the lake up to date; with `run_id`, that run is read again in any case."""
    lake = open_lake(settings)
    publish(settings, lake, run_id=run_id)
    runs = build_site(lake, tell, anew=run_id)
    page = lake.url_of(SiteFiles(lake).key(FIRST_PAGE))
    return StepResult(outputs=(), counts={"runs": runs}, messages=(f"the dashboard is at {page}",))
