"""Decoded records as Arrow, without a copy: the buffers that kernels filled become the columns' own."""

from typing import Any

import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kernels.record_buffers import Binary, HeaderContents, RecordRows

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
