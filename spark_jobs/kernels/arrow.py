"""Decoded records as Arrow, without a copy: the buffers that kernels filled become the columns' own."""

from typing import Any

import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kernels.record_buffers import Binary, RecordContents, RecordRows

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


def record_batch(rows: RecordRows, contents: RecordContents) -> pa.RecordBatch:
    """The columns of `RECORD_SCHEMA` over the memory of `rows` and `contents`."""
    records, headers = rows.offset.size, contents.header_key.offsets.size - 1
    header_columns = [
        _binary(pa.string(), contents.header_key, has_nulls=False),
        _binary(pa.binary(), contents.header_value),
    ]
    columns = [
        _array(pa.int32(), records, None, rows.batch),
        _array(pa.int64(), records, None, rows.offset),
        _array(pa.int64(), records, None, rows.timestamp),
        _array(pa.int32(), records, None, rows.sequence),
        _binary(pa.binary(), contents.key, has_nulls=bool((rows.key_size < 0).any())),
        _binary(pa.binary(), contents.value, has_nulls=bool((rows.value_size < 0).any())),
        _array(
            HEADERS_TYPE,
            records,
            None,
            contents.header_offsets,
            children=[_array(HEADER_TYPE, headers, None, children=header_columns)],
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORD_SCHEMA)


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
