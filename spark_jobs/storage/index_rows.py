"""Rows of the table `index`, chunk by chunk, as kernels want them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kernels.columns import NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH
from spark_jobs.kernels.decisions import BatchColumns, batch_columns
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_rows

Labels: TypeAlias = "pa.DictionaryArray[Any, Any]"
FEWEST_ROWS = 1 << 15
"""In a chunk, unless there are no more: each costs the same before its first row."""
_INSTEAD_OF_NULL = {"control_type": NO_CONTROL_TYPE, "coordinator_epoch": NO_COORDINATOR_EPOCH}


def iter_index(
    lake: ObjectStore, keys: Iterable[str], *, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of several index files, one after the other, those of small ones together.

    Memory is that of a chunk.
    """
    held: list[pa.RecordBatch] = []
    for key in keys:
        for rows in iter_rows(lake, key, columns=columns):
            held.append(rows)
            if sum(part.num_rows for part in held) >= FEWEST_ROWS:
                yield concatenate(held)
                held = []
    if held:
        yield concatenate(held)


def values(rows: pa.RecordBatch, name: str) -> npt.NDArray[Any]:
    """A column of numbers; where it is null, what kernels take for "none"."""
    column = rows.column(name)
    if column.null_count:
        column = column.fill_null(_INSTEAD_OF_NULL[name])
    return column.to_numpy(zero_copy_only=False)


def is_problem(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Which rows are no batch."""
    found: npt.NDArray[np.bool_] = rows.column("problem").is_valid().to_numpy(zero_copy_only=False)
    return found


def batches_of(rows: pa.RecordBatch) -> BatchColumns:
    """The columns that the admission rules use."""
    return batch_columns(values(rows, name) for name in BatchColumns._fields)


def concatenate(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of `parts`, at least one, in order."""
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def take(rows: pa.RecordBatch, places: npt.NDArray[np.signedinteger[Any]]) -> pa.RecordBatch:
    """The rows at `places`, in their order."""
    taken: pa.RecordBatch = rows.take(pa.array(places, pa.int64()))
    return taken


def chosen(rows: pa.RecordBatch, wanted: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows that are `wanted`."""
    return rows.filter(pa.array(wanted, pa.bool_()))


def labels(codes: npt.NDArray[np.signedinteger[Any]], names: Sequence[str]) -> Labels:
    """Text in place of numbers, which count in `names`; a name that comes twice there is one label."""
    known = list(dict.fromkeys(names))
    places = np.array([known.index(name) for name in names], dtype=np.int32)
    return pa.DictionaryArray.from_arrays(places[codes], known)
