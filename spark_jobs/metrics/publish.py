"""Writes the metrics of a run to the configured targets."""

import os
import tempfile
from pathlib import Path

from spark_jobs.config.settings import Settings
from spark_jobs.metrics.prometheus import exposition
from spark_jobs.metrics.samples import last_run, samples_of
from spark_jobs.metrics.statsd import send
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.storage.ledger import list_runs
from spark_jobs.storage.object_store import ObjectStore

METRICS_KEY = "metrics/onceover.prom"
"""In the lake, whatever else is configured."""
READABLE_BY_ALL = 0o644
"""A collector is another user."""


def publish(settings: Settings, lake: ObjectStore, *, run_id: str | None) -> str:
    """The metrics of `run_id`, else of the run that was started last; where the lake has them now."""
    lines = list_runs(lake)
    chosen = run_id or last_run(lines)
    samples = samples_of(lines, chosen, RunTables(lake, chosen) if chosen else None)
    text = exposition(samples).encode(errors="replace")  # a topic's name may be no text
    lake.put(METRICS_KEY, text)
    if settings.metrics.textfile is not None:
        replace_file(Path(settings.metrics.textfile), text)
    if settings.metrics.statsd is not None:
        send(samples, settings.metrics.statsd)
    return lake.url_of(METRICS_KEY)


def replace_file(path: Path, data: bytes) -> None:
    """Replaced atomically: a collector may read at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as unfinished:
        unfinished.write(data)
        os.fchmod(unfinished.fileno(), READABLE_BY_ALL)
    Path(unfinished.name).replace(path)
