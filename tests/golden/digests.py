"""A lake in a few digests: every step of every final run, every published table, the dashboard."""

import hashlib
import json
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from spark_jobs.config.canonical import digest_of
from spark_jobs.config.settings import Settings
from spark_jobs.lake.chain import EntryKind, read_chain
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.run_folder import MANIFEST, RunFolder, StepDone, read_inputs
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.report.site_files import DASHBOARD, from_script
from spark_jobs.pipeline.report.step import report
from tests.golden.scenarios import SCENARIOS

GOLDEN = Path(__file__).parent / "golden.json"
BY_THE_CLOCK = {"started_at", "finished_at", "published_at", "duration_ms"}
"""Columns that say when a run was made, not what it yields."""
BY_PLACE_OR_CLOCK = {"started", "finished", "seconds", "built", "location", "metadata", "queries"}
"""The same in the data of the dashboard, and where the lake is."""
DATA_OF_PAGES = f"{DASHBOARD}/data"

Digests = dict[str, str]


def digests_of(name: str, place: Path) -> Digests:
    """Runs the scenario below `place`; keys before its end begin with the moment."""
    found: Digests = {}
    for moment, settings in SCENARIOS[name](place):
        prefix = f"{moment}: " if moment else ""
        found |= {f"{prefix}{key}": digest for key, digest in lake_digests(settings).items()}
    return found


def lake_digests(settings: Settings) -> Digests:
    """Of every step of every final run, of every table, and of the data of the dashboard."""
    return {**_steps(settings), **_tables(settings), **_dashboard(settings)}


def _steps(settings: Settings) -> Digests:
    lake = open_lake(settings)
    return {
        f"{entry.number} {entry.day} {done.step}": _step_digest(done)
        for entry in read_chain(lake).entries
        if entry.kind is EntryKind.RUN
        for done in RunFolder(lake, read_inputs(lake, entry.run_id)).steps_done()
    }


def _step_digest(done: StepDone) -> str:
    """Of counts, state and every file; a manifest names inodes, and the run id covers the rest of it."""
    files = {output.path: output.digest for output in done.outputs if output.path != MANIFEST}
    return digest_of([done.counts, done.state, files])


def _tables(settings: Settings) -> Digests:
    with open_catalog(settings) as catalog:
        names = [name for space in catalog.list_namespaces() for name in catalog.list_tables(space)]
        return {".".join(name): _rows_digest(catalog.load_table(name)) for name in sorted(names)}


def _rows_digest(table: Table) -> str:
    """Of all rows in an order of their own; files and snapshots may be cut differently."""
    rows = (_plain(row) for row in table.scan().to_arrow().to_pylist())
    return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()


def _plain(row: dict[str, Any]) -> str:
    kept = {name: value for name, value in row.items() if name not in BY_THE_CLOCK}
    return json.dumps(kept, sort_keys=True, default=str)


def _dashboard(settings: Settings) -> Digests:
    """Of what the pages show: the step `report` has no outputs in a run's folder."""
    report(settings)
    lake = open_lake(settings)
    scripts = (found.key for found in lake.list(DATA_OF_PAGES) if found.key.endswith(".js"))
    data = {key: _without_clock(from_script(lake.read(key))) for key in scripts}
    place = str(Path(lake.url).parent)
    return {"report": digest_of(json.loads(json.dumps(data).replace(place, "place")))}


def _without_clock(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_clock(each) for each in value]
    if isinstance(value, dict):
        kept = value.keys() - BY_PLACE_OR_CLOCK
        return {name: _without_clock(value[name]) for name in kept}
    return value


def read_golden() -> dict[str, Digests]:
    """What was recorded, by scenario."""
    found: dict[str, Digests] = json.loads(GOLDEN.read_text())
    return found
