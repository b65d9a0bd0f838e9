"""Takes the pictures of the dashboard for the documentation: `python -m tests.browser [DIRECTORY]`."""

import shutil
import sys
import tempfile
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from spark_jobs.sample.story import RUN_DATES
from tests.browser.sample_lake import published_lake
from tests.browser.visit import visit
from tests.chromium import NAMES

PICTURES = Path("docs", "img")
WIDTH = 1180
MARGIN = 16
NEXT_MORNING = datetime.combine(RUN_DATES[-1] + timedelta(days=1), time(7), UTC)
"""When someone looks at the pages."""
STEPS_HEADING = "h2:has-text('Steps')"


def main(to: Path) -> None:
    """The sample's two runs, as the overview and the page of the second run show them."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        lake = published_lake(Path(place))
        found = next(filter(None, map(shutil.which, NAMES)))
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        _take(browser, lake.directory, to)
        browser.close()


def _take(browser: Browser, site: Path, to: Path) -> None:
    with visit(browser, (site / "index.html").as_uri(), width=WIDTH, now=NEXT_MORNING) as overview:
        overview.page.screenshot(path=to / "overview.png")
    with visit(browser, (site / "run.html").as_uri(), width=WIDTH, now=NEXT_MORNING) as run:
        top = run.page.locator(STEPS_HEADING).bounding_box()
        assert top is not None
        run.page.screenshot(
            path=to / "run.png",
            full_page=True,
            clip={"x": 0, "y": top["y"] - MARGIN, "width": WIDTH, "height": WIDTH},
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES)
