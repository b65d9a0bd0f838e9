"""What a table promises: its columns with types and meaning, and the key that names a row."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", "UTC")
"""Iceberg's `timestamptz`; Kafka's timestamps have milliseconds."""
FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS = -62_135_596_800_000, 253_402_300_799_999
"""From 0001-01-01 to the end of 9999-12-31, the range of timestamps that every engine can read."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `meaning` is a sentence for the person who queries it, with the unit where there is one.

    A column that `is_time` holds ms since 1970, -1 for none; published tables have it as a timestamp.
    """

    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False
    is_time: bool = False


LABEL = pa.dictionary(pa.int32(), pa.string())
"""A text of which there are few, as numbers that stand for them."""


def with_labels(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """A table as it is handed to a writer, each text of these columns once; readers find plain strings."""
    return pa.schema([field.with_type(LABEL) if field.name in names else field for field in schema])


@dataclass(frozen=True)
class Contract:
    """One table: each step that writes it ends with one `cast` to it."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema; the meanings travel as field metadata."""
        return pa.schema(
            [
                pa.field(column.name, column.type, column.nullable, {"comment": column.meaning})
                for column in self.columns
            ]
        )

    def cast(self, table: pa.Table) -> pa.Table:
        """`table` in the contract's column order and types; a missing or unfit column is an error."""
        return table.select(self.schema.names).cast(self.schema)

    def empty(self) -> pa.Table:
        """A table of this contract without rows."""
        return self.schema.empty_table()
