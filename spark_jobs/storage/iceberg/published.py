"""What a run has published, as the tables themselves say."""

from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from spark_jobs.config.settings import Settings
from spark_jobs.storage.iceberg.catalog import open_catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table as one run left it; `location` is an address: `s3://…` or `file://…`."""

    snapshot_id: int
    location: str


def published_tables(settings: Settings, run_id: str) -> dict[str, PublishedTable]:
    """Every table that the run's tag stands on, by `namespace.table`."""
    with open_catalog(settings) as catalog:
        found = {name: _tagged(catalog.load_table(name), run_id) for name in table_names(catalog, settings)}
    return {name: table for name, table in found.items() if table is not None}


def table_names(catalog: Catalog, settings: Settings) -> list[str]:
    """All tables of topics, then our own."""
    namespaces = (settings.catalog.topics, settings.catalog.namespace)
    return [".".join(table) for each in namespaces for table in sorted(catalog.list_tables(each))]


def _tagged(table: Table, run_id: str) -> PublishedTable | None:
    ref, location = table.refs().get(run_id), table.location()
    address = location if "://" in location else f"file://{location}"
    return PublishedTable(snapshot_id=ref.snapshot_id, location=address) if ref else None
