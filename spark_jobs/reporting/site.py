"""The whole site, brought up to date: what is new is read and written, what is shown already stays."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from spark_jobs.reporting.headline import Row, headline
from spark_jobs.reporting.memory import fingerprint, recall, remember
from spark_jobs.reporting.pages import page_files
from spark_jobs.reporting.recent import recent
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.reporting.site_files import SiteFiles
from spark_jobs.storage.chain import read_chain
from spark_jobs.storage.ledger import LedgerLine, list_runs, utc_now
from spark_jobs.storage.object_store import ObjectStore

Tell = Callable[[str], None]


def build_site(lake: ObjectStore, tell: Tell, *, anew: str | None = None) -> int:
    """Write what is missing, and the run `anew` in any case; how many runs were written."""
    site = SiteFiles(lake)
    memory, lines = recall(site), list_runs(lake)
    news = [
        line for line in lines if memory.runs.get(line.run_id) != fingerprint(line) or line.run_id == anew
    ]
    for number, _ in enumerate(news, start=1):
        tell(f"report: run {number} of {len(news)}")
    write_years(site, lines, news)
    speaking = list(read_chain(lake).current.values())
    site.put_data([("recent", recent(lake, speaking)), ("index", _index(lines))])
    for path, data in page_files(lake.url):
        site.put(path, data)
    remember(site, replace(memory, runs={line.run_id: fingerprint(line) for line in lines}))
    return len(news)


def write_years(site: SiteFiles, lines: Sequence[LedgerLine], news: Sequence[LedgerLine]) -> None:
    """A line of every run, in a file per year; only years with news are touched."""
    known = {line.run_id for line in lines}
    for year in sorted({line.day.year for line in news}):
        name = f"runs/{year}"
        shown = {row["id"]: row for row in site.read_data(name) or () if row["id"] in known}
        fresh = {
            line.run_id: headline(line, RunTables(site.lake, line.run_id))
            for line in news
            if line.day.year == year
        }
        site.put_data([(name, sorted({**shown, **fresh}.values(), key=_by_day))])


def _by_day(row: Row) -> tuple[str, str, str]:
    return row["day"], row["started"], row["id"]


def _index(lines: Sequence[LedgerLine]) -> Row:
    """What every page loads first."""
    return {
        "built": utc_now().isoformat(timespec="seconds"),
        "years": sorted({line.day.year for line in lines}),
        "runs": len(lines),
    }
