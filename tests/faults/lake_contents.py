"""What a lake holds for its readers: everything but locks, times of work, and Iceberg's own bookkeeping."""

import hashlib
import json
from pathlib import Path

from pyiceberg.table import Table

from spark_jobs.config.settings import Settings
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.holdings import table_names

LEFT_OUT = ("lake.json", "locks/", "ledger/", "dashboard/", "metrics/", "catalog/", "tables/", ".scratch/")
"""The lake's id, who worked and when, pages about it, files of Iceberg with times in them.

Tables are compared.
"""

LakeContents = dict[str, str]
"""By key the digest of the bytes; by table the files that it names, its tags and how often it changed."""


def lake_contents(settings: Settings) -> LakeContents:
    """Equal for two lakes at the same place if no reader can distinguishes them."""
    return {**_objects(Path(settings.lake)), **_tables(settings)}


def differences(expected: LakeContents, found: LakeContents) -> list[str]:
    """The names under which they differ."""
    return sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))


def _objects(lake: Path) -> LakeContents:
    files = {str(path.relative_to(lake)): path for path in lake.rglob("*") if path.is_file()}
    return {
        key: hashlib.sha256(path.read_bytes()).hexdigest()
        for key, path in files.items()
        if not key.startswith(LEFT_OUT)
    }


def _tables(settings: Settings) -> LakeContents:
    with open_catalog(settings) as catalog:
        return {f"table {name}": _table(catalog.load_table(name)) for name in table_names(catalog, settings)}


def _table(table: Table) -> str:
    files = {task.file.file_path: task.file.record_count for task in table.scan().plan_files()}
    return json.dumps([sorted(files.items()), sorted(table.refs()), len(table.snapshots())])
