"""Records that were read, where they are; and as Arrow, once somebody wants them so."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kernels.arrow import headers_array, record_batch
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import Bytes, copy_bytes
from spark_jobs.kernels.record import read_nullable
from spark_jobs.kernels.record_buffers import (
    Binary,
    HeaderContents,
    RecordRows,
    Totals,
    allocate_binary,
    allocate_headers,
)
from spark_jobs.kernels.utf8 import write_repaired


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
