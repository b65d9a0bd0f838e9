"""Tables that hold rows of a date which another run has published, and of which this one knows nothing."""

from collections.abc import Collection, Iterator
from datetime import date

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from spark_jobs.config.settings import Settings
from spark_jobs.storage.iceberg.commits import files_of, find_table
from spark_jobs.storage.iceberg.target import TableTarget
from spark_jobs.storage.topic_contract import topic_contract
from spark_jobs.tables.own_tables import OWN_TABLES

TableName = tuple[str, ...]


def leftover_targets(
    catalog: Catalog, settings: Settings, day: date, known: Collection[TableName]
) -> Iterator[TableTarget]:
    """Targets without files for all tables but the `known` ones that hold rows of `day`."""
    for namespace in (settings.catalog.topics, settings.catalog.namespace):
        for name in sorted(catalog.list_tables(namespace)):
            table = None if name in known else find_table(catalog, name)
            target = _target(table, settings, name) if table is not None else None
            if table is not None and target is not None and files_of(table, day):
                yield target


def _target(table: Table, settings: Settings, name: TableName) -> TableTarget | None:
    """The table as ours, None if somebody else keeps one there."""
    topic, own = table.properties.get("onceover.topic"), OWN_TABLES.get(name[-1])
    if topic is not None:
        return TableTarget(namespace=name[0], contract=topic_contract(settings, topic), topic=topic)
    return TableTarget(namespace=name[0], contract=own) if own is not None else None
