"""Arrow's tables, taken apart."""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa

from spark_jobs.kernels.memory import as_bytes, read_only
from spark_jobs.parquet.dictionary import LARGEST
from spark_jobs.parquet.shreds import Shred, edges
from spark_jobs.parquet.values import ByteValues, Named, Numbers, Values, byte_values


def shred_batch(batch: pa.RecordBatch) -> Iterator[Shred]:
    """The leaves of all columns, in order."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if isinstance(column, pa.ListArray):
            yield from shred_lists(column)
        else:
            yield _flat(column, nullable=field.nullable)


def _flat(array: "pa.Array[Any]", *, nullable: bool) -> Shred:
    rows = len(array)
    if not array.null_count:
        return Shred(rows=rows, values=_values(array), definition=1 if nullable else None)
    is_there = np.asarray(array.is_valid())
    return Shred(
        rows=rows,
        values=_values(array.drop_null()),
        definition=is_there.view(np.uint8),
        row_values=edges(is_there),
    )


def shred_lists(array: "pa.Array[Any]") -> Iterator[Shred]:
    """A leaf for each field of the structs that the lists hold."""
    lists = cast("pa.ListArray[Any]", array)
    offsets = np.asarray(lists.offsets).astype(np.int64)
    elements = lists.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
    offsets -= offsets[0]
    counts = np.diff(offsets)
    row_slots = edges(np.maximum(counts, 1))
    repetition, is_element = np.ones(row_slots[-1], np.uint8), np.ones(row_slots[-1], np.bool_)
    repetition[row_slots[:-1]] = 0
    is_element[row_slots[:-1][counts == 0]] = False
    for field, column in zip(elements.type, _fields(elements), strict=True):
        values = _by_name(column) if pa.types.is_string(field.type) else column
        flat = _flat(values, nullable=field.nullable)
        definition = is_element.astype(np.uint8)
        if flat.definition is not None:
            definition[is_element] += flat.definition
        yield Shred(
            rows=len(array),
            values=flat.values,
            definition=definition,
            repetition=repetition,
            row_slots=row_slots,
            row_values=offsets if flat.row_values is None else flat.row_values[offsets],
        )


def _by_name(texts: "pa.Array[Any]") -> "pa.Array[Any]":
    """With a dictionary, as names are few; without one where they are too many for it."""
    named = cast("pa.StringArray", texts).dictionary_encode()
    return named if named.dictionary.nbytes <= LARGEST else texts


def _fields(structs: "pa.Array[Any]") -> "list[pa.Array[Any]]":
    return cast("pa.StructArray", structs).flatten()


def _values(array: "pa.Array[Any]") -> Values:
    kind = array.type
    if isinstance(array, pa.DictionaryArray):
        names = array.dictionary.cast(pa.binary()).to_pylist()
        return Named(names, np.asarray(array.indices).astype(np.int32))
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        return _bytes(array)
    if pa.types.is_timestamp(kind):
        return Numbers(read_only(array.cast(pa.int64()), np.int64))
    if pa.types.is_date(kind):
        return Numbers(read_only(array.cast(pa.int32()), np.int32))
    return Numbers(read_only(array, kind.to_pandas_dtype()))


def _bytes(array: "pa.Array[Any]") -> ByteValues:
    """Over the array's own memory."""
    _, offsets, data = array.buffers()
    all_offsets = np.frombuffer(memoryview(offsets or bytes(4)), dtype=np.int32)
    found = all_offsets[array.offset : array.offset + len(array) + 1]
    return byte_values(as_bytes(data or b""), found[:-1], np.diff(found))
