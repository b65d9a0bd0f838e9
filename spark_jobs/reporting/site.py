"""The whole site, brought up to date: what is new is read and written, what is shown already stays."""

from collections.abc import Callable, Collection, Sequence

from spark_jobs.reporting.headline import Row, headline
from spark_jobs.reporting.memory import Memory, fingerprint, recall, remember
from spark_jobs.reporting.months import by_month, month_fingerprint, month_shards
from spark_jobs.reporting.pages import page_files
from spark_jobs.reporting.recent import recent
from spark_jobs.reporting.run_files import write_run
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.reporting.site_files import SiteFiles
from spark_jobs.storage.chain import ChainEntry, read_chain
from spark_jobs.storage.ledger import LedgerLine, list_runs, utc_now
from spark_jobs.storage.object_store import ObjectStore

OnProgress = Callable[[str], None]


def build_site(lake: ObjectStore, on_progress: OnProgress, *, anew: str | None = None) -> int:
    """Write what is missing, and the run `anew` in any case; how many runs were written."""
    site = SiteFiles(lake)
    memory, lines = recall(site), list_runs(lake)
    prints = {line.run_id: fingerprint(line) for line in lines}
    news = [
        line for line in lines if memory.runs.get(line.run_id) != prints[line.run_id] or line.run_id == anew
    ]
    for number, line in enumerate(news, start=1):
        on_progress(f"report: run {number} of {len(news)}")
        write_run(site, line)
    write_years(site, lines, news)
    speaking = list(read_chain(lake).current.values())
    known = Memory(runs=prints, months=memory.months, shards=memory.shards)
    noted = write_months(site, speaking, known, {line.run_id for line in news})
    site.put_data([("recent", recent(lake, speaking)), ("index", _index(lines, noted.shards))])
    for path, data in page_files(lake.url):
        site.put(path, data)
    remember(site, noted)
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


def write_months(
    site: SiteFiles, speaking: Sequence[ChainEntry], memory: Memory, news: Collection[str]
) -> Memory:
    """The topics' series of every month that has changed, and the fingerprints of all months."""
    found = by_month(speaking)
    months = {month: month_fingerprint(entries, memory.runs) for month, entries in found.items()}
    shards = {month: memory.shards.get(month, "") for month in months}
    for month, entries in found.items():
        if memory.months.get(month) != months[month] or any(each.run_id in news for each in entries):
            series = month_shards(site, entries)
            site.put_data([(f"topics/{shard}/{month}", topics) for shard, topics in series.items()])
            shards[month] = "".join(sorted(series))
    return Memory(runs=memory.runs, months=months, shards=shards)


def _by_day(row: Row) -> tuple[str, str, str]:
    return row["day"], row["started"], row["id"]


def _index(lines: Sequence[LedgerLine], shards: dict[str, str]) -> Row:
    """What every page loads first."""
    return {
        "built": utc_now().isoformat(timespec="seconds"),
        "years": sorted({line.day.year for line in lines}),
        "months": dict(sorted(shards.items())),
        "runs": len(lines),
    }
