"""What every published table has in common: types that Iceberg knows, and the date of the run."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.tables.contract import FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS, TIMESTAMP, Column, Contract

RUN_DATE = Column("run_date", pa.date32(), "date of the run that published the row; tables are divided by it")

_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint32(): pa.int64(),
}
"""Iceberg has no integer below 32 bits and none without a sign."""
_NONE, _MICROSECONDS = pa.scalar(-1, pa.int64()), pa.scalar(1000, pa.int64())
_FIRST, _LAST = (pa.scalar(bound, pa.int64()) for bound in (FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS))


def published(contract: Contract) -> Contract:
    """The form in which readers get the table of `contract`."""
    columns = (*map(_published, contract.columns), RUN_DATE)
    return replace(contract, columns=columns, key=(RUN_DATE.name, *contract.key))


def _published(column: Column) -> Column:
    if column.is_time:
        return replace(column, type=TIMESTAMP, nullable=True)
    return replace(column, type=_WIDER.get(column.type, column.type))


def as_published(columns: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a published table's `schema`, times as timestamps: null where they are none."""
    found = [
        _timestamps(columns.column(field.name)) if field.type == TIMESTAMP else columns.column(field.name)
        for field in schema
    ]
    return pa.table(found, names=schema.names).cast(schema)


def _timestamps(milliseconds: "pa.ChunkedArray[Any]") -> "pa.ChunkedArray[Any]":
    """Of ms since 1970; null for -1, and for a time outside the years 1 to 9999."""
    is_time = pc.and_(
        pc.and_(pc.greater_equal(milliseconds, _FIRST), pc.less_equal(milliseconds, _LAST)),
        pc.not_equal(milliseconds, _NONE),
    )
    kept = pc.if_else(is_time, milliseconds, pa.scalar(None, pa.int64()))
    micros: pa.ChunkedArray[Any] = pc.multiply(kept, _MICROSECONDS)
    return micros.cast(TIMESTAMP)
