"""A table's contract in Iceberg's terms: the same columns, with ids, and their meanings as documentation."""

from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping
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

from spark_jobs.tables.contract import RUN_DATE, Contract

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
    """The schema of a published table; ids count the columns first, then what is nested in them."""
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
    """Tables are divided by run date: a run replaces its date whole, and readers skip other dates."""
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
