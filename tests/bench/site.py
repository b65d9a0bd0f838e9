"""`python -m tests.bench.site`: a year of 500 topics: what a run's report costs, how pages load.

Times of pages are from the address to the drawn page, in a real Chromium, opened as files, cold each time.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.table import Table

from spark_jobs.lake.file_store import FileStore
from spark_jobs.pipeline.report.site_files import DASHBOARD, topic_code
from spark_jobs.pipeline.report.step import build_site
from tests.bench.site_data import Year, one_more_run, write_year

TOPIC = "shop.events.topic-0007"
VISITS = (
    "index.html",
    "run.html",
    "topic.html",
    f"topic.html#topic={topic_code(TOPIC)}",
    "producers.html",
    "transactions.html",
    "batches.html",
    f"batches.html#topic={TOPIC}&partition=1&offset=105",
)


def measure_reports(lake: FileStore, year: Year) -> dict[str, float]:
    """Seconds to show the last run of a year, the next run, and nothing new."""
    first = _seconds(lake)
    one_more_run(lake, year)
    return {"the first report": first, "a run's report": _seconds(lake), "without news": _seconds(lake)}


def _seconds(lake: FileStore) -> float:
    started = time.monotonic()
    build_site(lake, lambda _: None)
    return time.monotonic() - started


def measure_pages(directory: Path, executable: str, times: int) -> dict[str, float]:
    """The shortest of several loads of each page, in seconds."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        return {
            name: min(_load(browser, f"file://{directory}/{name}") for _ in range(times)) for name in VISITS
        }


def _load(browser: Browser, url: str) -> float:
    page = browser.new_context().new_page()
    started = time.monotonic()
    page.goto(url)
    page.wait_for_selector("body[data-ready=true]")
    seconds = time.monotonic() - started
    page.context.close()
    return seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=365)
    parser.add_argument("--topics", type=int, default=500)
    parser.add_argument("--times", type=int, default=3, help="how often each page is loaded")
    chosen = parser.parse_args(arguments)
    year = Year(runs=chosen.runs, topics=chosen.topics)
    with tempfile.TemporaryDirectory() as place:
        lake = write_year(Path(place), year)
        found = measure_reports(lake, year)
        chromium = shutil.which("chromium")
        if chromium is not None:
            found |= measure_pages(Path(place, DASHBOARD), chromium, chosen.times)
    Console(width=None if sys.stdout.isatty() else 120).print(table(year, found))


def table(year: Year, found: dict[str, float]) -> Table:
    shown = Table(title=f"The site of {year.runs} runs with {year.topics} topics")
    shown.add_column("what")
    shown.add_column("seconds", justify="right")
    for name, seconds in found.items():
        shown.add_row(name, f"{seconds:.2f}")
    return shown


if __name__ == "__main__":
    main()
