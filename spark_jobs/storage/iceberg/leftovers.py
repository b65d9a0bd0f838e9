"""Tables that hold rows of a date which another run has published, and of which this one knows nothing."""

from collections.abc import Collection, Iterator
from datetime import date

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from spark_jobs.config.settings import Settings
from spark_jobs.storage.iceberg.commits import files_of, find_table
from spark_jobs.storage.iceberg.target import TableTarget
from spark_jobs.storage.iceberg.topic_tables import topic_of
from spark_jobs.storage.topic_contract import topic_contract
from spark_jobs.tables.publish import OWN_TABLES

TableName = tuple[str, ...]


def leftover_targets(
    catalog: Catalog, settings: Settings, day: date, topics: Collection[str], own: Collection[TableName]
) -> Iterator[TableTarget]:
    """Targets without files for tables that hold rows of `day`, but for those of `topics` and `own` ones."""
    for namespace in (settings.catalog.topics, settings.catalog.namespace):
        for name in sorted(catalog.list_tables(namespace)):
            table = None if name in own else find_table(catalog, name)
            target = _target(table, settings, name) if table is not None else None
            if table is None or target is None or target.topic in topics:
                continue
            if files_of(table, day):
                yield target


def _target(table: Table, settings: Settings, name: TableName) -> TableTarget | None:
    """The table if it is Onceover's, None if it belongs to another application."""
    topic, own = topic_of(table), OWN_TABLES.get(name[-1])
    if topic is not None:
        contract = topic_contract(settings, topic, name[-1])
        return TableTarget(namespace=name[0], contract=contract, topic=topic)
    return TableTarget(namespace=name[0], contract=own) if own is not None else None
