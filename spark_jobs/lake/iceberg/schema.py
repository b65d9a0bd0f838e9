"""A table's contract as an Iceberg schema, and how tables are created with it or evolve to it."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.update import update_table_metadata
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from spark_jobs.lake.errors import PublishedDiffers
from spark_jobs.lake.iceberg.target import TableTarget
from spark_jobs.tables.contract import RUN_DATE, Contract
from spark_jobs.tables.materialise import RECORDS
from spark_jobs.tables.publish import OWN_TABLES

_PLAIN: dict[pa.DataType, IcebergType] = {
    pa.bool_(): BooleanType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.timestamp("us", "UTC"): TimestamptzType(),
}
FIRST_PARTITION_FIELD = 1000


@lru_cache
def iceberg_schema(contract: Contract) -> Schema:
    """The schema of a published table; field ids number the columns first, then nested fields."""
    ids = count(len(contract.columns) + 1)
    return Schema(
        *(
            NestedField(
                field_id=number,
                name=column.name,
                field_type=_type(column.type, ids),
                required=not column.nullable,
                doc=column.meaning,
            )
            for number, column in enumerate(contract.columns, start=1)
        )
    )


def division(schema: Schema) -> PartitionSpec:
    """Tables are partitioned by run date: a run replaces its whole date, and readers skip other dates."""
    source = schema.find_field(RUN_DATE.name).field_id
    field = PartitionField(source, FIRST_PARTITION_FIELD, IdentityTransform(), RUN_DATE.name)
    return PartitionSpec(field)


def name_mapping(schema: Schema) -> str:
    """The name mapping for files without field ids."""
    mapping: NameMapping = schema.name_mapping
    return mapping.model_dump_json()


def _type(kind: pa.DataType, ids: "count[int]") -> IcebergType:
    if isinstance(kind, pa.ListType):
        element = kind.value_field
        return ListType(next(ids), _type(element.type, ids), element_required=not element.nullable)
    if isinstance(kind, pa.StructType):
        return StructType(*_fields(kind, ids))
    return _PLAIN[kind]


def _fields(kind: "pa.StructType", ids: "count[int]") -> Iterator[NestedField]:
    for index in range(kind.num_fields):
        field: pa.Field[Any] = kind.field(index)
        yield NestedField(next(ids), field.name, _type(field.type, ids), required=not field.nullable)


class RememberingTransaction(Transaction):
    """Caches the metadata: pyiceberg computes it about twenty times per commit and copies all snapshots."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._known: tuple[object, object, TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The table's metadata with the updates so far."""
        table, updates = self._table.metadata, self._updates
        if self._known is None or self._known[0] is not table or self._known[1] is not updates:
            self._known = (table, updates, update_table_metadata(table, updates))
        return self._known[2]


NEW_LAKE = (
    "an earlier version of Onceover made the table, and Iceberg cannot change the type of such a column: "
    "set 'lake' to a new, empty location and run the dates again from their sources; "
    "the old lake stays as it is"
)
_OURS = {column.name for contract in (RECORDS, *OWN_TABLES.values()) for column in contract.columns}


@dataclass(frozen=True, slots=True)
class TableChange:
    """A transaction on a table, and access to the table's files."""

    transaction: Transaction
    io: FileIO


def begin_change(catalog: Catalog, table: Table | None, target: TableTarget) -> TableChange:
    """A transaction in which the table has all columns of its contract; None creates the table.

    Some REST servers cannot create a table in a transaction, so there it is created before.
    """
    if table is None and isinstance(catalog, MetastoreCatalog):
        creation = catalog.create_table_transaction(**_new_table(target))
        return TableChange(creation, load_file_io(catalog.properties, creation.table_metadata.location))
    if table is None:
        created = catalog.create_table(**_new_table(target))
        return TableChange(created.transaction(), created.io)
    transaction = RememberingTransaction(table)
    _evolve(transaction, target)
    return TableChange(transaction, table.io)


def _new_table(target: TableTarget) -> dict[str, Any]:
    schema = iceberg_schema(target.contract)
    properties = {
        TableProperties.DEFAULT_NAME_MAPPING: name_mapping(schema),
        TableProperties.COMMIT_NUM_RETRIES: "0",  # `commits` reads the table before it tries again
        **target.properties(),
    }
    return {
        "identifier": target.name,
        "schema": schema,
        "partition_spec": division(schema),
        "properties": properties,
    }


def _evolve(transaction: Transaction, target: TableTarget) -> None:
    """Adds new columns of the contract; columns that it no longer has are kept, null in new rows.

    A column that is nullable now becomes optional.
    """
    current, wanted = transaction.table_metadata.schema(), iceberg_schema(target.contract)
    _check_types(current, wanted, target)
    required = {field.name for field in current.fields if field.required}
    relaxed = [field.name for field in wanted.fields if field.optional and field.name in required]
    if not relaxed and not set(wanted.column_names) - set(current.column_names):
        return
    with transaction.update_schema() as update:
        update.union_by_name(wanted)
    mapping = name_mapping(transaction.table_metadata.schema())
    transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})


def _check_types(current: Schema, wanted: Schema, target: TableTarget) -> None:
    """Raises `PublishedDiffers` if a column changes its type: files of earlier runs keep theirs."""
    types = {field.name: field.field_type for field in current.fields}
    for field in wanted.fields:
        old = types.get(field.name, field.field_type)
        if str(old) != str(field.field_type) and field.field_type.is_primitive:
            remedy = NEW_LAKE if field.name in _OURS else "give the field another name"
            raise PublishedDiffers(
                f"{'.'.join(target.name)}: its column {field.name} is {old}, now it should be "
                f"{field.field_type}; {remedy}"
            )
