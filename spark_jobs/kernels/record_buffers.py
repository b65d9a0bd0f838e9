"""Buffers for decoded records, in Arrow's layout of offsets, data and validity, and the records found.

Offsets are int32, as in Arrow's `binary`: half the size of int64, and the type that Iceberg and Spark use.
They suffice because they point into an arena of at most 2 GiB.
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
    """Totals of the valid batches of one call."""

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
    """The records' numbers, and the positions of their bytes in the arena; a size of -1 is null."""

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
    """Uninitialised columns for this many records."""
    return RecordRows._make(np.empty(records, dtype=kind) for kind in _ROW_TYPES)


def allocate_headers(totals: Totals) -> HeaderContents:
    """Columns of exactly the size that the headers need."""
    return HeaderContents(
        offsets=_offsets(totals.records),
        key=allocate_binary(totals.headers, totals.header_key_bytes),
        value=allocate_binary(totals.headers, totals.header_value_bytes),
    )


def allocate_binary(rows: int, size: int) -> Binary:
    """A column of this many rows and bytes; offsets begin with 0, and every value is null.

    The bytes are from Arrow's memory pool, which gives them to the next call. Freed by another thread, those
    of numpy go back to the system, and every page costs a fault again.
    """
    validity = np.zeros((rows + 7) // 8, dtype=np.uint8)
    memory: Any = pa.allocate_buffer(max(size, 1))
    data = np.frombuffer(memory, dtype=np.uint8)[:size]
    return Binary(offsets=_offsets(rows), data=data, validity=validity)


def _offsets(rows: int) -> npt.NDArray[np.int32]:
    offsets = np.empty(rows + 1, dtype=np.int32)
    offsets[0] = 0
    return offsets


# Decoded records as Arrow, without a copy: Arrow's columns use the buffers that kernels filled.
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


def record_batch(
    rows: RecordRows, key: "pa.Array[Any]", value: "pa.Array[Any]", headers: "pa.Array[Any]"
) -> pa.RecordBatch:
    """The columns of `RECORD_SCHEMA` over the memory of all of them."""
    records = rows.offset.size
    columns = [
        _array(pa.int32(), records, None, rows.batch),
        _array(pa.int64(), records, None, rows.offset),
        _array(pa.int64(), records, None, rows.timestamp),
        _array(pa.int32(), records, None, rows.sequence),
        key,
        value,
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
    """Arrow needs no validity bitmap for a column without nulls."""
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


@dataclass(frozen=True)
class FoundRecords:
    """Records in order: their numbers, and the positions of their bytes in `arena`; as Arrow on demand."""

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
    def key(self) -> "pa.Array[Any]":
        """The keys, in memory of their own."""
        return self._copied(self.rows.key_start, self.rows.key_size, self.totals.key_bytes)

    @cached_property
    def value(self) -> "pa.Array[Any]":
        """The values, in memory of their own."""
        return self._copied(self.rows.value_start, self.rows.value_size, self.totals.value_bytes)

    @cached_property
    def records(self) -> pa.RecordBatch:
        """All columns as Arrow, in memory of their own."""
        return record_batch(self.rows, self.key, self.value, self.headers)

    def _copied(
        self, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int32], total: int
    ) -> "pa.Array[Any]":
        column = allocate_binary(self.count, total)
        _copy(self.arena, starts, sizes, column)
        return _binary(pa.binary(), column, has_nulls=bool((sizes < 0).any()))


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
    """The headers of each record, which were validated before."""
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
