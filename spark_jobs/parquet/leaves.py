"""The columns of a schema as Parquet has them: leaves, each with its path, its type and its levels."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.kernels.encodings import SIZE_BYTES
from spark_jobs.parquet.thrift import Value, flag, i32, items, struct, text


class Physical(IntEnum):
    """Types of values, by the numbers that the format gives them."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    DOUBLE = 5
    BYTE_ARRAY = 6


_TIMESTAMP = pa.timestamp("us", "UTC")
"""The only kind of timestamp that tables have."""
_PHYSICAL: dict[pa.DataType, Physical] = {
    pa.bool_(): Physical.BOOLEAN,
    pa.int32(): Physical.INT32,
    pa.date32(): Physical.INT32,
    pa.int64(): Physical.INT64,
    _TIMESTAMP: Physical.INT64,
    pa.float64(): Physical.DOUBLE,
    pa.binary(): Physical.BYTE_ARRAY,
    pa.string(): Physical.BYTE_ARRAY,
}
_NUMBER_TYPES = {
    Physical.BOOLEAN: "?",
    Physical.INT32: "<i4",
    Physical.INT64: "<i8",
    Physical.DOUBLE: "<f8",
}
_REQUIRED, _REPEATED = 0, 2
"""Between them is what can be null."""
_UTF8, _LIST, _DATE, _TIMESTAMP_MICROS = 0, 3, 6, 10
"""Types of the format's first years, which older readers look at."""
_STRING_TYPE, _LIST_TYPE, _DATE_TYPE = ({number: struct({})} for number in (1, 3, 6))
_TIMESTAMP_TYPE = {8: struct({1: flag(True), 2: struct({2: struct({})})})}
"""The same in the union that came after them; a timestamp is adjusted to UTC, in microseconds."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One column of values; levels are zero where nothing can be null, or repeated."""

    path: tuple[str, ...]
    kind: pa.DataType
    max_definition: int
    max_repetition: int

    @property
    def physical(self) -> Physical:
        return _PHYSICAL[self.kind]

    @property
    def number_type(self) -> str:
        """How numbers of this leaf are stored, as numpy says it."""
        return _NUMBER_TYPES[self.physical]

    def bound(self, value: Any) -> bytes:
        """A value as statistics have it."""
        return value if isinstance(value, bytes) else np.array(value, dtype=self.number_type).tobytes()

    def plain(self, value: Any) -> bytes:
        """A value as pages have it: bytes with their size in front."""
        data = self.bound(value)
        return (
            len(data).to_bytes(SIZE_BYTES, "little") + data if self.physical is Physical.BYTE_ARRAY else data
        )


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values, whether or not a dictionary holds them."""
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


def schema_leaves(schema: pa.Schema) -> list[Leaf]:
    """The leaves of all columns, in order."""
    return [leaf for field in schema for leaf in _field_leaves(field)]


def _field_leaves(field: "pa.Field[Any]") -> Iterator[Leaf]:
    kind = _plain_type(field.type)
    if not pa.types.is_list(kind):
        yield Leaf((field.name,), kind, int(field.nullable), 0)
        return
    for each in kind.value_type:
        yield Leaf((field.name, "list", "element", each.name), each.type, 1 + each.nullable, 1)


def schema_elements(schema: pa.Schema) -> Value:
    """The schema as a tree in a list, its root first."""
    elements = [_element("schema", children=len(schema))]
    for field in schema:
        elements += _field_elements(field)
    return items(elements)


def _field_elements(field: "pa.Field[Any]") -> Iterator[Value]:
    kind = _plain_type(field.type)
    if not pa.types.is_list(kind):
        yield _element(field.name, repetition=field.nullable, kind=kind)
        return
    yield _element(field.name, repetition=_REQUIRED, children=1, converted=_LIST, logical=_LIST_TYPE)
    yield _element("list", repetition=_REPEATED, children=1)
    yield _element("element", repetition=_REQUIRED, children=kind.value_type.num_fields)
    for each in kind.value_type:
        yield _element(each.name, repetition=each.nullable, kind=each.type)


def _element(
    name: str,
    *,
    repetition: int | None = None,
    children: int | None = None,
    kind: pa.DataType | None = None,
    converted: int | None = None,
    logical: dict[int, Value] | None = None,
) -> Value:
    if kind is not None and pa.types.is_string(kind):
        converted, logical = _UTF8, _STRING_TYPE
    elif kind is not None and pa.types.is_date(kind):
        converted, logical = _DATE, _DATE_TYPE
    elif kind == _TIMESTAMP:
        converted, logical = _TIMESTAMP_MICROS, _TIMESTAMP_TYPE
    return struct(
        {
            1: None if kind is None else i32(_PHYSICAL[kind]),
            3: None if repetition is None else i32(repetition),
            4: text(name),
            5: None if children is None else i32(children),
            6: None if converted is None else i32(converted),
            10: None if logical is None else struct(logical),
        }
    )
