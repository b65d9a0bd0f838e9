"""What a run has published, from the tables' own metadata."""

from collections.abc import Container, Iterator
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from spark_jobs.config.settings import Settings
from spark_jobs.storage.iceberg.catalog import open_catalog
from spark_jobs.storage.iceberg.commits import find_table
from spark_jobs.storage.iceberg.topic_tables import topic_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table as one run left it; `location` is an address: `s3://…` or `file://…`."""

    snapshot_id: int
    location: str


def published_tables(settings: Settings, run_id: str) -> dict[str, PublishedTable]:
    """Every table with the run's tag, by `namespace.table`."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTable:
    """The table of a topic; `metadata` is the file that describes it now."""

    topic: str
    name: str
    location: str
    metadata: str
    rows: int


def topic_tables(settings: Settings, known: Container[str] = ()) -> Iterator[TopicTable]:
    """The tables of topics by name; those that are `known` by `namespace.table` are not loaded."""
    with open_catalog(settings, read_only=True) as catalog:
        for name in sorted(catalog.list_tables(settings.catalog.topics)):
            table = find_table(catalog, name) if ".".join(name) not in known else None
            topic = topic_of(table)
            if table is not None and topic is not None:
                yield TopicTable(
                    topic=topic,
                    name=".".join(name),
                    location=table.location(),
                    metadata=table.metadata_location,
                    rows=rows_of(table),
                )


def rows_of(table: Table) -> int:
    """The table's row count, from its newest snapshot."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return 0
    said = snapshot.summary.additional_properties if snapshot.summary else {}
    if "total-records" in said:
        return int(said["total-records"])
    return sum(task.file.record_count for task in table.scan().plan_files())
