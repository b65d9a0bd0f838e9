"""`report`: updates the data-quality dashboard; it needs no Spark and also shows failed runs.

The site shows the results of runs: it is not part of a run, and a run is final without it.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from spark_jobs.config.canonical import canonical_json, digest_of
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.lake.chain import ChainEntry, read_chain
from spark_jobs.lake.errors import StorageError
from spark_jobs.lake.iceberg.holdings import topic_tables
from spark_jobs.lake.identity import open_at_home
from spark_jobs.lake.ledger import LedgerLine, list_runs, utc_now
from spark_jobs.lake.manifest import read_run_manifest
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import MANIFEST
from spark_jobs.pipeline.context import StepResult
from spark_jobs.pipeline.report.freshness import greatest_times, month_file, show_freshness
from spark_jobs.pipeline.report.metrics import last_run, publish
from spark_jobs.pipeline.report.run_page import headline, source_view, sources_file, write_run
from spark_jobs.pipeline.report.run_tables import PLAIN, Row, RunTables
from spark_jobs.pipeline.report.site_files import FIRST_PAGE, SiteFiles, shard_of, to_constant, topic_code
from spark_jobs.pipeline.report.topics import table_view
from spark_jobs.progress import LABELS
from spark_jobs.tables.audit import TOPIC_VOLUMES

HERE = Path(__file__).parent
CHARTS = ("uPlot.iife.js", "uPlot.min.css")
"""From the package uplot-python, whose wheel contains the library; its Python code is not used."""
FORMAT = 5
"""If it differs from the stored one, every file is written again."""
STATE_FILE = "data/memory.json"
SERIES_COLUMNS = ("day", "run", "records", "batches", "verdicts", "lag")
Months = dict[str, list[ChainEntry]]
RECENT_RUNS = 28
VOLUMES = tuple(name for name in TOPIC_VOLUMES.schema.names if name != "topic")
OnProgress = Callable[[str], None]
TABLES = "tables"


def report(
    settings: Settings, *, run_id: str | None = None, on_progress: OnProgress = lambda _: None
) -> StepResult:
    """Updates the metrics and the site of the lake; the run `run_id` is read again in any case."""
    lake = open_at_home(settings)
    site = SiteFiles(lake)
    try:
        runs = build_site(lake, on_progress, anew=run_id)
        show_freshness(settings, site, read_state(site).months)
    finally:  # the metrics of a run do not depend on its dashboard
        publish(settings, lake, run_id=run_id)
    with suppress(StorageError):  # a catalog that does not answer: the site shows what it showed before
        show_tables(settings, site)
    with suppress(StorageError):  # a source that does not answer: when it was copied is not known
        show_sources(settings, site, run_id or last_run(list_runs(lake)))
    page = lake.url_of(site.key(FIRST_PAGE))
    return StepResult(outputs=(), counts={"runs": runs}, messages=(f"the dashboard is at {page}",))


def show_tables(settings: Settings, site: SiteFiles) -> None:
    """Which table each topic has; those that the site shows already are not loaded again."""
    shown: dict[str, Any] = site.read_data(TABLES) or {}
    names = {each["name"] for each in shown.values() if "find_in_python" in each}
    found = dict(table_view(settings, table) for table in topic_tables(settings, known=names))
    site.put_data([(TABLES, {**shown, **found})])


def show_sources(settings: Settings, site: SiteFiles, run_id: str | None) -> None:
    """What the run has read of each source, and when that was copied."""
    if run_id is not None and RunTables(site.lake, run_id).has(Step.STAGE, MANIFEST):
        manifest = read_run_manifest(site.lake, run_id)
        rows = [source_view(settings, source, manifest) for source in settings.sources]
        site.put_data([(sources_file(run_id), rows)])


# The site: its pages, a line per run, series of topics by month. Only what has changed is written.


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page: its file, script and template are named alike; the overview is what a folder opens with."""

    name: str
    title: str

    @property
    def file(self) -> str:
        return "index.html" if self.name == "overview" else f"{self.name}.html"


PAGES = (
    Page(name="overview", title="Overview"),
    Page(name="run", title="Run"),
    Page(name="topic", title="Topics"),
    Page(name="producers", title="Producers"),
    Page(name="transactions", title="Transactions"),
    Page(name="batches", title="Batch explorer"),
)


def page_files(lake: str) -> Iterator[tuple[str, bytes]]:
    """Every page, script, style and icon by path; `lake` is shown on each page."""
    for page in PAGES:
        template = _environment().get_template(f"{page.name}.html.j2")
        yield page.file, template.render(page=page, pages=PAGES, lake=lake).encode()
    for asset in sorted((HERE / "assets").iterdir()):
        yield f"assets/{asset.name}", asset.read_bytes()
    yield "assets/labels.js", to_constant("labels", labels())
    for name in CHARTS:
        yield f"assets/{name}", (_chart_library() / name).read_bytes()


def labels() -> dict[str, Any]:
    """The definitions of verdicts and outcomes for pages: symbol, tone, meaning, and a verdict's group."""
    return {
        "verdicts": {
            each.value: (each.symbol, each.tone.value, each.meaning, each.group.value) for each in Verdict
        },
        "outcomes": {each.value: (each.symbol, each.tone.value, each.meaning) for each in Outcome},
        "refused": [each.value for each in Verdict if each.is_refused],
        "plain": sorted(PLAIN),
        "counts": {f"{step}.{name}": label for (step, name), label in LABELS.items()},
    }


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(HERE / "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _chart_library() -> Path:
    found = find_spec("uplot")
    assert found is not None and found.origin is not None  # noqa: PT018 — a dependency like any other
    return Path(found.origin).parent / "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteState:
    """What the site shows already: fingerprints of each run, and of the runs in each month's files.

    `shards` are the files of each month, one letter each.
    """

    format: int = FORMAT
    runs: dict[str, str] = field(default_factory=dict)
    months: dict[str, str] = field(default_factory=dict)
    shards: dict[str, str] = field(default_factory=dict)


def fingerprint(line: LedgerLine) -> str:
    """Changes when anything about the run does."""
    return digest_of({**asdict(line), "day": line.day.isoformat()})


def read_state(site: SiteFiles) -> SiteState:
    """The state after the last update; empty if another format wrote it."""
    if site.lake.stat(site.key(STATE_FILE)) is None:
        return SiteState()
    stored = json.loads(site.lake.read(site.key(STATE_FILE)))
    return SiteState(**stored) if stored.get("format") == FORMAT else SiteState()


def write_state(site: SiteFiles, state: SiteState) -> None:
    """Stores the state, after everything else is written."""
    site.put(STATE_FILE, canonical_json(asdict(state)))


def by_month(current: Sequence[ChainEntry]) -> Months:
    """The current runs, by month such as `2026-03`."""
    months: Months = defaultdict(list)
    for entry in current:
        months[f"{entry.day:%Y-%m}"].append(entry)
    return dict(months)


def month_fingerprint(entries: Sequence[ChainEntry], fingerprints: dict[str, str]) -> str:
    """Changes when one of the month's runs changes or is replaced."""
    return digest_of([[entry.run_id, fingerprints.get(entry.run_id, "")] for entry in entries])


def month_shards(site: SiteFiles, entries: Sequence[ChainEntry]) -> dict[str, dict[str, Any]]:
    """The series of every topic in the month by shard, from what the site has of its runs."""
    shards: dict[str, dict[str, Any]] = defaultdict(dict)
    for entry in entries:
        for row in site.read_data(f"run/{entry.run_id}/topics") or ():
            topics = shards[shard_of(row["code"])]
            series = topics.setdefault(
                row["code"], {"name": row["name"], "columns": SERIES_COLUMNS, "rows": []}
            )
            series["rows"].append(
                [entry.day.isoformat(), entry.run_id, *(row[name] for name in SERIES_COLUMNS[2:])]
            )
    return dict(shards)


def recent(lake: ObjectStore, current: Sequence[ChainEntry]) -> dict[str, Any]:
    """The volumes of the last current runs; those with the most records come first."""
    runs = [
        (entry, RunTables(lake, entry.run_id).rows(Step.AUDIT, TOPIC_VOLUMES.file))
        for entry in current[-RECENT_RUNS:]
    ]
    audited = [(entry, {row["topic"]: row for row in rows}) for entry, rows in runs if rows]
    topics = sorted({topic for _, rows in audited for topic in rows})
    lines = [_line(topic, [rows.get(topic, {}) for _, rows in audited]) for topic in topics]
    return {
        "days": [entry.day.isoformat() for entry, _ in audited],
        "topics": sorted(lines, key=lambda line: -line["records"][-1]),
    }


def _line(topic: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    series = {name: [row.get(name, 0) for row in rows] for name in VOLUMES}
    return {"name": topic, "code": topic_code(topic), **series}


def build_site(lake: ObjectStore, on_progress: OnProgress, *, anew: str | None = None) -> int:
    """Writes what is missing, and the run `anew` in any case; returns how many runs were written."""
    site = SiteFiles(lake)
    before, lines = read_state(site), list_runs(lake)
    prints = {line.run_id: fingerprint(line) for line in lines}
    news = [
        line for line in lines if before.runs.get(line.run_id) != prints[line.run_id] or line.run_id == anew
    ]
    for number, line in enumerate(news, start=1):
        on_progress(f"report: run {number} of {len(news)}")
        write_run(site, line)
    write_years(site, lines, news)
    current = list(read_chain(lake).current.values())
    known = SiteState(runs=prints, months=before.months, shards=before.shards)
    after = write_months(site, current, known, {line.run_id for line in news})
    site.put_data([("recent", recent(lake, current)), ("index", _index(lines, after.shards))])
    for path, data in page_files(lake.url):
        site.put(path, data)
    write_state(site, after)
    return len(news)


def write_years(site: SiteFiles, lines: Sequence[LedgerLine], news: Sequence[LedgerLine]) -> None:
    """A line per run, in one file per year; only years with changed runs are written."""
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
    site: SiteFiles, current: Sequence[ChainEntry], before: SiteState, news: Collection[str]
) -> SiteState:
    """The topics' series of every month that has changed, and the fingerprints of all months."""
    found = by_month(current)
    months = {month: month_fingerprint(entries, before.runs) for month, entries in found.items()}
    shards = {month: before.shards.get(month, "") for month in months}
    for month, entries in found.items():
        if before.months.get(month) != months[month] or any(each.run_id in news for each in entries):
            series = month_shards(site, entries)
            newest = greatest_times(site.read_data(f"run/{each.run_id}/newest") or {} for each in entries)
            site.put_data([(f"topics/{shard}/{month}", topics) for shard, topics in series.items()])
            site.put_data([(month_file(month), newest)])
            shards[month] = "".join(sorted(series))
    return SiteState(runs=before.runs, months=months, shards=shards)


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
