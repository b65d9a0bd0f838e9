"""The contract of a table: columns with types and meaning, its key, its files, and its published form."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", "UTC")
"""Iceberg's `timestamptz`; Kafka's timestamps have milliseconds."""
FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS = -62_135_596_800_000, 253_402_300_799_999
"""From 0001-01-01 to the end of 9999-12-31, the range of timestamps that every engine can read."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `meaning` is its documentation for users, with the unit where there is one.

    A column that `is_time` holds ms since 1970, -1 for none; published tables have it as a timestamp.
    """

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False
    is_time: bool = False


def one_of(values: Iterable[str]) -> str:
    """The meaning of a column that holds one of these values."""
    *first, last = values
    return f"{', '.join(first)} or {last}"


LABEL = pa.dictionary(pa.int32(), pa.string())
"""A dictionary-encoded text with few distinct values."""


def with_labels(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """The schema for a writer, with these text columns dictionary-encoded; readers get plain strings."""
    return pa.schema([field.with_type(LABEL) if field.name in names else field for field in schema])


@dataclass(frozen=True)
class Contract:
    """One table; a step that writes it ends with one `cast` to it.

    `file` is its file below the folder of its step, or the pattern of its files; empty if a run has none.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    file: str = ""

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with the meanings as field metadata."""
        return pa.schema(
            [
                pa.field(column.name, column.type, column.nullable, {"comment": column.meaning})
                for column in self.columns
            ]
        )

    def file_of(self, **values: object) -> str:
        """The name of one of the table's files; `values` are those of the pattern's fields."""
        return self.file.format(**values)

    @property
    def file_prefix(self) -> str:
        """What the paths of all its files begin with."""
        return self.file.partition("{")[0]

    def cast(self, table: pa.Table) -> pa.Table:
        """`table` in the contract's column order and types; a missing or unfit column is an error."""
        return table.select(self.schema.names).cast(self.schema)

    def empty(self) -> pa.Table:
        """A table of this contract without rows."""
        return self.schema.empty_table()


RUN_DATE = Column("run_date", pa.date32(), "date of the run that published the row; tables are divided by it")

_WIDER: dict[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint32(): pa.int64(),
}
"""Iceberg has no integers below 32 bits and no unsigned ones."""


def published(contract: Contract) -> Contract:
    """The published form of `contract`: Iceberg's types and the column `run_date`."""
    columns = (*map(_published, contract.columns), RUN_DATE)
    return replace(contract, columns=columns, key=(RUN_DATE.name, *contract.key))


def _published(column: Column) -> Column:
    if column.is_time:
        return replace(column, type=TIMESTAMP, nullable=True)
    return replace(column, type=_WIDER.get(column.type, column.type))


def as_published(columns: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a published table's `schema`, times as timestamps or null."""
    found = [
        _timestamps(columns.column(field.name)) if field.type == TIMESTAMP else columns.column(field.name)
        for field in schema
    ]
    return pa.table(found, names=schema.names).cast(schema)


def _timestamps(milliseconds: "pa.ChunkedArray[Any]") -> "pa.ChunkedArray[Any]":
    """Timestamps from ms since 1970; null for -1, and for a time outside the years 1 to 9999."""
    # Slow to import, and a number as a scalar imports pandas: readers of a log need neither.
    import pyarrow.compute as pc  # noqa: PLC0415

    numbers = (-1, 1000, FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS)
    none, microseconds, first, last = (pa.scalar(number, pa.int64()) for number in numbers)
    is_time = pc.and_(
        pc.and_(pc.greater_equal(milliseconds, first), pc.less_equal(milliseconds, last)),
        pc.not_equal(milliseconds, none),
    )
    kept = pc.if_else(is_time, milliseconds, pa.scalar(None, pa.int64()))
    micros: pa.ChunkedArray[Any] = pc.multiply(kept, microseconds)
    return micros.cast(TIMESTAMP)
