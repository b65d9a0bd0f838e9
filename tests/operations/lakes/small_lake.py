"""A small published lake to copy, damage and mend, and what it holds."""

import hashlib
import json
import shutil
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.table import Table

from spark_jobs.config.settings import Settings
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.expiry import tables_of
from spark_jobs.lake.stores import open_lake
from tests.operations.replay.runs import Shop, run
from tests.pipeline.batches import NOON, batch

DAY_MS = 86_400_000
RETENTION = "retention: {runs_days: 1, snapshots_days: 1, staged_days: 1}\n"
FITS = b'{"amount": 1, "note": "x"}'
DAYS = 3

Tree = dict[str, str]
Rows = dict[str, list[str]]


def settings_of(shop: Shop) -> Settings:
    return shop.settings(more=RETENTION)


def arrive(shop: Shop, number: int) -> None:
    """A batch of two topics on a date of May."""
    time = NOON + (number - 1) * DAY_MS
    shop.arrive(number, batch(number - 1, timestamp=time), topic="plain")
    shop.arrive(number, batch(number - 1, pid=9, value=FITS, timestamp=time))


def published_shop(directory: Path, days: int = DAYS) -> Shop:
    """A lake with the first days of May published."""
    directory.mkdir(parents=True, exist_ok=True)
    shop = Shop(directory)
    for number in range(1, days + 1):
        arrive(shop, number)
        run(settings_of(shop), number)
    return shop


def copied(shop: Shop, directory: Path, copy: Callable[[str, str], object] = shutil.copy2) -> Shop:
    """The shop with its capture, configuration and lake at another place, as a person copies it."""
    shutil.copytree(shop.directory, directory, copy_function=copy)
    return Shop(directory)


def tree(directory: Path) -> Tree:
    """Every file with its digest."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def run_ids(settings: Settings) -> dict[date, str]:
    return {day: entry.run_id for day, entry in read_chain(open_lake(settings)).current.items()}


def rows(settings: Settings) -> Rows:
    """Every row of every table, as pyiceberg reads it."""
    with open_catalog(settings) as catalog:
        return {
            ".".join(table.name()): _texts(table.scan().to_arrow().to_pylist())
            for table in tables_of(catalog, settings)
        }


def rows_by_duckdb(settings: Settings) -> Rows:
    """The same rows, read by DuckDB from the files that the tables name."""
    with open_catalog(settings) as catalog:
        return {".".join(table.name()): _by_duckdb(table) for table in tables_of(catalog, settings)}


def _by_duckdb(table: Table) -> list[str]:
    files = [task.file.file_path for task in table.scan().plan_files()]
    found = duckdb.read_parquet(files).to_arrow_table().to_pylist() if files else []
    return _texts(found)


def _texts(found: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in found)
