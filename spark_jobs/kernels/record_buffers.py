"""The memory that decoded records go to: what Arrow calls offsets, data and validity, one set per column.

Offsets are int32, as Arrow's `binary` has them: half the size of int64, and the type that Iceberg and Spark
take. They suffice because an arena of at most 2 GiB holds everything that they point to.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import Bytes, copy_bytes
from spark_jobs.kernels.record import read_nullable, write_repaired

MAX_BYTES = 2**31 - 1


class Totals(NamedTuple):
    """How much the good batches of one call hold."""

    records: int
    key_bytes: int
    value_bytes: int
    headers: int
    header_key_bytes: int
    header_value_bytes: int


class Binary(NamedTuple):
    """A column of bytes, where null is not empty."""

    offsets: npt.NDArray[np.int32]
    data: Bytes
    validity: Bytes


class RecordRows(NamedTuple):
    """What records have as numbers, and where in the arena the rest of each stands; a size of -1 is null."""

    batch: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64]
    sequence: npt.NDArray[np.int32]
    key_start: npt.NDArray[np.int64]
    key_size: npt.NDArray[np.int32]
    value_start: npt.NDArray[np.int64]
    value_size: npt.NDArray[np.int32]
    headers_start: npt.NDArray[np.int64]
    header_count: npt.NDArray[np.int32]

    def first(self, rows: int) -> "RecordRows":
        """Only the first rows."""
        return RecordRows._make(column[:rows] for column in self)


class HeaderContents(NamedTuple):
    """Record headers, each a key and a value; those of a row begin and end at `offsets`."""

    offsets: npt.NDArray[np.int32]
    key: Binary
    value: Binary


_ROW_TYPES = (np.int32, np.int64, np.int64, np.int32, *(np.int64, np.int32) * 3)


def allocate_rows(records: int) -> RecordRows:
    """Room for so many records."""
    return RecordRows._make(np.empty(records, dtype=kind) for kind in _ROW_TYPES)


def allocate_headers(totals: Totals) -> HeaderContents:
    """Exactly the memory that the headers need."""
    return HeaderContents(
        offsets=_offsets(totals.records),
        key=allocate_binary(totals.headers, totals.header_key_bytes),
        value=allocate_binary(totals.headers, totals.header_value_bytes),
    )


def allocate_binary(rows: int, size: int) -> Binary:
    """A column of so many rows and bytes; offsets begin with 0, and every value as null."""
    validity = np.zeros((rows + 7) // 8, dtype=np.uint8)
    return Binary(offsets=_offsets(rows), data=np.empty(size, dtype=np.uint8), validity=validity)


def _offsets(rows: int) -> npt.NDArray[np.int32]:
    offsets = np.empty(rows + 1, dtype=np.int32)
    offsets[0] = 0
    return offsets


# Decoded records as Arrow, without a copy: the buffers that kernels filled become the columns' own.


HEADER_TYPE = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS_TYPE = pa.list_(pa.field("element", HEADER_TYPE, nullable=False))
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("batch", pa.int32(), nullable=False),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", pa.int64(), nullable=False),
    pa.field("sequence", pa.int32(), nullable=False),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", HEADERS_TYPE, nullable=False),
]
RECORD_SCHEMA = pa.schema(_FIELDS)
"""`batch` is the index of the batch in the call; `timestamp` is in milliseconds since 1970."""


def record_batch(rows: RecordRows, key: Binary, value: Binary, headers: "pa.Array[Any]") -> pa.RecordBatch:
    """The columns of `RECORD_SCHEMA` over the memory of all of them."""
    records = rows.offset.size
    columns = [
        _array(pa.int32(), records, None, rows.batch),
        _array(pa.int64(), records, None, rows.offset),
        _array(pa.int64(), records, None, rows.timestamp),
        _array(pa.int32(), records, None, rows.sequence),
        _binary(pa.binary(), key, has_nulls=bool((rows.key_size < 0).any())),
        _binary(pa.binary(), value, has_nulls=bool((rows.value_size < 0).any())),
        headers,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


def headers_array(contents: HeaderContents) -> "pa.Array[Any]":
    """A list of headers per record, over the memory of `contents`."""
    headers = contents.key.offsets.size - 1
    columns = [
        _binary(pa.string(), contents.key, has_nulls=False),
        _binary(pa.binary(), contents.value),
    ]
    structs = _array(HEADER_TYPE, headers, None, children=columns)
    return _array(HEADERS_TYPE, contents.offsets.size - 1, None, contents.offsets, children=[structs])


def _binary(kind: pa.DataType, column: Binary, *, has_nulls: bool = True) -> "pa.Array[Any]":
    """Where nothing is null, Arrow need not be told of every row that it is not."""
    validity = column.validity if has_nulls else None
    return _array(kind, column.offsets.size - 1, validity, column.offsets, column.data)


def _array(
    kind: pa.DataType,
    rows: int,
    *memory: npt.NDArray[Any] | None,
    children: "list[pa.Array[Any]] | None" = None,
) -> "pa.Array[Any]":
    buffers = [None if part is None else pa.py_buffer(part.data) for part in memory]
    return pa.Array.from_buffers(kind, rows, buffers, children=children)


# Records that were read, where they are; and as Arrow, once somebody wants them so.


@dataclass(frozen=True)
class FoundRecords:
    """Records in order: their numbers, and where in `arena` their bytes are."""

    arena: Bytes
    rows: RecordRows
    totals: Totals

    @property
    def count(self) -> int:
        return self.totals.records

    @cached_property
    def headers(self) -> "pa.Array[Any]":
        """The lists of headers, in memory of their own."""
        contents = allocate_headers(self.totals)
        _copy_headers(self.arena, self.rows.headers_start, self.rows.header_count, contents)
        return headers_array(contents)

    @cached_property
    def records(self) -> pa.RecordBatch:
        """All of it, in memory of its own."""
        key = allocate_binary(self.count, self.totals.key_bytes)
        _copy(self.arena, self.rows.key_start, self.rows.key_size, key)
        value = allocate_binary(self.count, self.totals.value_bytes)
        _copy(self.arena, self.rows.value_start, self.rows.value_size, value)
        return record_batch(self.rows, key, value, self.headers)


@helper
def _put(column: Binary, row: int, arena: Bytes, start: int, size: int) -> None:
    """Bytes, or null if `size` is negative, as the next row of a column."""
    at = column.offsets[row]
    if size >= 0:
        column.validity[row >> 3] |= 1 << (row & 7)
        copy_bytes(column.data, at, arena, start, size)
        column.offsets[row + 1] = at + size
    else:
        column.offsets[row + 1] = at


@kernel
def _copy(arena: Bytes, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int32], column: Binary) -> None:
    for row in range(starts.size):
        _put(column, row, arena, starts[row], sizes[row])


@kernel
def _copy_headers(
    arena: Bytes,
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int32],
    contents: HeaderContents,
) -> None:
    """The headers of each record, which were found right before."""
    header = 0
    for row in range(starts.size):
        position = starts[row]
        for _ in range(counts[row]):
            _, start, size = read_nullable(arena, position, arena.size)
            column = contents.key
            column.validity[header >> 3] |= 1 << (header & 7)
            column.offsets[header + 1] = write_repaired(
                column.data, column.offsets[header], arena, start, size
            )
            _, start, size = read_nullable(arena, start + size, arena.size)
            _put(contents.value, header, arena, start, size)
            position = start + max(size, 0)
            header += 1
        contents.offsets[row + 1] = header
