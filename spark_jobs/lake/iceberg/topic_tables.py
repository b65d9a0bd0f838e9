"""The tables of topics: their names, which a table property assigns to topics, and their columns."""

from dataclasses import replace
from itertools import islice

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from spark_jobs.config.settings import Settings, ValueType
from spark_jobs.lake.iceberg.commits import TableCommit, find_table, publish_into, publish_table
from spark_jobs.lake.iceberg.target import TOPIC_PROPERTY, RunStamp, TableTarget
from spark_jobs.tables.contract import Column, Contract
from spark_jobs.tables.materialise import records_contract
from spark_jobs.tables.table_names import folder_name, name_candidates

_LIKELY = 4
"""Names to try first for a topic's table: the readable one, and three with digests."""


class TopicTables:
    """Tables of topics in one namespace; a name once given stays the topic's."""

    def __init__(self, catalog: Catalog, namespace: str) -> None:
        self._catalog, self._namespace = catalog, namespace
        self._names = {name[-1] for name in catalog.list_tables(namespace)}
        self._topics: dict[str, str | None] = {}
        """The topic of each loaded table; None for a table without a topic."""

    def place(self, target: TableTarget) -> tuple[TableTarget, Table | None]:
        """The target under the name of its topic's table, and the table; for a new one, under a free name."""
        assert target.topic is not None
        table = self.find(target.topic)
        if table is not None:
            name = table.name()[-1]
        else:
            name = next(each for each in name_candidates(target.topic) if each not in self._names)
            self._names.add(name)
            self._topics[name] = target.topic
        return replace(target, contract=replace(target.contract, name=name)), table

    def find(self, topic: str) -> Table | None:
        """The table of a topic, if it has one."""
        likely = [*islice(name_candidates(topic), _LIKELY), folder_name(topic)]
        for name in (*likely, *sorted(self._names.difference(likely))):
            if name in self._names and self._topics.get(name, topic) == topic:
                table = find_table(self._catalog, (self._namespace, name))
                self._topics[name] = topic_of(table)
                if self._topics[name] == topic:
                    return table
        return None


def topic_of(table: Table | None) -> str | None:
    """The topic whose records the table holds; None for a table without a topic."""
    return None if table is None else table.properties.get(TOPIC_PROPERTY)


def publish_target(
    catalog: Catalog, topics: TopicTables, target: TableTarget, stamp: RunStamp
) -> TableCommit:
    """Publishes a target; the table of a topic under the name that it has in the catalog."""
    if target.topic is None:
        return publish_table(catalog, target, stamp)
    return publish_into(catalog, *topics.place(target), stamp)


VALUE_TYPES: dict[ValueType, pa.DataType] = {
    ValueType.STRING: pa.string(),
    ValueType.LONG: pa.int64(),
    ValueType.DOUBLE: pa.float64(),
    ValueType.BOOLEAN: pa.bool_(),
}


def topic_contract(settings: Settings, topic: str, name: str) -> Contract:
    """The contract of the table of `topic` with this name: the common columns and its declared fields."""
    fields = settings.topic(topic).fields
    columns = (
        Column(name, VALUE_TYPES[kind], f"field {name} of the value", True) for name, kind in fields.items()
    )
    return records_contract(topic, name, tuple(columns))
