"""A lake in a few digests: every step of every final run, every published table."""

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
from tests.golden.scenarios import SCENARIOS

GOLDEN = Path(__file__).parent / "golden.json"
BY_THE_CLOCK = {"started_at", "finished_at", "published_at", "duration_ms"}
"""Columns that say when a run was made, not what it yields."""

Digests = dict[str, str]


def digests_of(name: str, place: Path) -> Digests:
    """Runs the scenario below `place`; keys before its end begin with the moment."""
    found: Digests = {}
    for moment, settings in SCENARIOS[name](place):
        prefix = f"{moment}: " if moment else ""
        found |= {f"{prefix}{key}": digest for key, digest in lake_digests(settings).items()}
    return found


def lake_digests(settings: Settings) -> Digests:
    """Of every step of every final run, and of every table."""
    return {**_steps(settings), **_tables(settings)}


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


def read_golden() -> dict[str, Digests]:
    """What was recorded, by scenario."""
    found: dict[str, Digests] = json.loads(GOLDEN.read_text())
    return found
