"""The published tables as two engines read them, in the words of a recording's `truth.jsonl`."""

from datetime import datetime
from typing import Any

import duckdb
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from spark_jobs.config.settings import Settings
from spark_jobs.lake.iceberg.catalog import open_catalog
from tests.pipeline.materialise.truth import as_truth, in_order, milliseconds

Records = list[dict[str, Any]]


def by_pyiceberg(settings: Settings, tag: str | None = None) -> Records:
    """Every record of every topic, now or in the cut of a run."""
    with open_catalog(settings) as catalog:
        found = [
            as_truth(table.properties["onceover.topic"], row)
            for table in _tables(catalog, settings.catalog.topics)
            for row in table.scan(snapshot_id=_snapshot(table, tag)).to_arrow().to_pylist()
        ]
    return in_order(found)


def by_duckdb(settings: Settings) -> Records:
    """The same from the files that the tables name."""
    found: Records = []
    with open_catalog(settings) as catalog:
        for table in _tables(catalog, settings.catalog.topics):
            files = [task.file.file_path for task in table.scan().plan_files()]
            rows = duckdb.read_parquet(files).to_arrow_table().to_pylist() if files else []
            found += [as_truth(table.properties["onceover.topic"], row) for row in rows]
    return in_order(found)


def own_rows(settings: Settings, name: str) -> Records:
    """The rows of one of Onceover's own tables, times in ms since 1970."""
    with open_catalog(settings) as catalog:
        table = catalog.load_table((settings.catalog.namespace, name))
        return [_in_ms(row) for row in table.scan().to_arrow().to_pylist()]


def _in_ms(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: milliseconds(value) if isinstance(value, datetime) else value for name, value in row.items()
    }


def _tables(catalog: Catalog, namespace: str) -> list[Table]:
    return [catalog.load_table(name) for name in catalog.list_tables(namespace)]


def _snapshot(table: Table, tag: str | None) -> int | None:
    return table.refs()[tag].snapshot_id if tag else None
