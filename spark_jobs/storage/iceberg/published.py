"""What a run has published, as the tables themselves say."""

from pyiceberg.catalog import Catalog

from spark_jobs.config.settings import Settings
from spark_jobs.storage.iceberg.catalog import open_catalog


def published_snapshots(settings: Settings, run_id: str) -> dict[str, int]:
    """The snapshot that the run's tag names, for every table that has it: `namespace.table` → snapshot id."""
    with open_catalog(settings) as catalog:
        found = {name: _tagged(catalog, name, run_id) for name in table_names(catalog, settings)}
    return {name: snapshot_id for name, snapshot_id in found.items() if snapshot_id is not None}


def table_names(catalog: Catalog, settings: Settings) -> list[str]:
    """All tables of topics, then our own."""
    namespaces = (settings.catalog.topics, settings.catalog.namespace)
    return [".".join(table) for each in namespaces for table in sorted(catalog.list_tables(each))]


def _tagged(catalog: Catalog, name: str, run_id: str) -> int | None:
    ref = catalog.load_table(name).refs().get(run_id)
    return ref.snapshot_id if ref else None
