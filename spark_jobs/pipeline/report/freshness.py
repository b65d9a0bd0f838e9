"""The newest record of each topic, by run, by month and in the whole lake, and the objective for its age."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.parquet_file import greatest
from spark_jobs.lake.run_folder import DONE, RunFolder, read_inputs
from spark_jobs.lake.table_listing import final_listing
from spark_jobs.pipeline.report.run_tables import Row, RunTables
from spark_jobs.pipeline.report.site_files import SiteFiles, topic_code

FRESHNESS = "freshness"
"""Name of the data file about the whole lake, by the code of the topic."""
READERS = 8
Times = dict[str, int]
"""Milliseconds since 1970 by topic."""


def newest_records(tables: RunTables) -> Times:
    """The greatest timestamp of the records that the run published."""
    if not tables.has(Step.PUBLISH, DONE):
        return {}
    folder = RunFolder(tables.lake, read_inputs(tables.lake, tables.run_id))
    files = [
        (entry.topic, folder.key(step, entry.file))
        for step, entry in final_listing(folder)
        if entry.topic is not None and entry.file is not None
    ]
    with ThreadPoolExecutor(READERS) as readers:
        times = list(readers.map(lambda file: _newest_of(tables, file[1]), files))
    return greatest_times(
        {topic: time} for (topic, _), time in zip(files, times, strict=True) if time is not None
    )


def _newest_of(tables: RunTables, key: str) -> int | None:
    """Of one file; None without any timestamp, or if `expire` has removed the file."""
    found = greatest(tables.lake, key, "timestamp") if tables.lake.stat(key) is not None else None
    return None if found is None else round(found.timestamp() * 1000)


def greatest_times(parts: Iterable[Mapping[str, int]]) -> Times:
    """The greatest time of each topic in any of the parts."""
    found: Times = {}
    for part in parts:
        found |= {topic: max(time, found.get(topic, time)) for topic, time in part.items()}
    return found


def month_file(month: str) -> str:
    """Name of the data file about the current runs of a month."""
    return f"newest/{month}"


def show_freshness(settings: Settings, site: SiteFiles, months: Iterable[str]) -> None:
    """The newest record of every topic in the lake, and how old it may be, in seconds."""
    newest = greatest_times(site.read_data(month_file(month)) or {} for month in months)
    rows = {topic_code(topic): _row(settings, topic, time) for topic, time in newest.items()}
    site.put_data([(FRESHNESS, rows)])


def _row(settings: Settings, topic: str, newest: int) -> Row:
    return {"name": topic, "newest": newest, "objective": settings.topic(topic).freshness}
