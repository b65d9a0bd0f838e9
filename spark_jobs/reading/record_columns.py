"""Columns of decoded records that come from their batch: timestamps, their types, and constants."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP
from spark_jobs.tables.contract import FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS, TIMESTAMP

_MICROSECONDS = 1000
"""In a millisecond."""
_MOST_SHARED = 2**17
"""Rows of a column of one value that is kept and shared: more than a piece of usual records has."""
Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Timestamps:
    """Timestamps as a table has them: `micros` where `is_stored`, as `given` where `is_outside` its range.

    Both flags are None where all are stored.
    """

    given: Int64s
    micros: Int64s
    is_stored: Flags | None = None
    is_outside: Flags | None = None

    @classmethod
    def of(cls, given: Int64s) -> "Timestamps":
        """Of timestamps in ms since 1970, -1 for none."""
        if not given.size or (given.min() >= 0 and given.max() <= LAST_TIMESTAMP_MS):
            return cls(given, given * _MICROSECONDS)
        is_outside = (given < FIRST_TIMESTAMP_MS) | (given > LAST_TIMESTAMP_MS)
        is_stored = ~is_outside & (given != NO_TIMESTAMP)
        return cls(given, np.where(is_stored, given, 0) * _MICROSECONDS, is_stored, is_outside)

    def columns(self) -> "dict[str, pa.Array[Any]]":
        """The columns of a table that hold them."""
        is_null = None if self.is_stored is None else ~self.is_stored
        if self.is_outside is None:
            outside = repeated(None, pa.int64(), self.given.size)
        else:
            outside = pa.array(self.given, pa.int64(), mask=~self.is_outside)
        return {
            "timestamp": pa.array(self.micros, pa.int64(), mask=is_null).cast(TIMESTAMP)
            if is_null is not None
            else without_nulls(self.micros, TIMESTAMP),
            "timestamp_out_of_range": outside,
        }


def without_nulls(values: npt.NDArray[Any], kind: pa.DataType) -> "pa.Array[Any]":
    """A column of these numbers, which have the width of `kind`, without a copy or a look at each of them."""
    column: pa.Array[Any] = pa.Array.from_buffers(kind, values.size, [None, pa.py_buffer(values.data)])
    return column


def repeated(value: object, kind: Any, rows: int) -> "pa.Array[Any]":
    """A column with the same value in each row, None for nulls; columns of a usual length share memory."""
    if rows > _MOST_SHARED:
        return _column(value, kind, rows)
    shared = _shared_texts if isinstance(value, str) else _shared_numbers
    column: pa.Array[Any] = shared(value, kind, 1 << rows.bit_length()).slice(0, rows)
    return column


def _column(value: object, kind: Any, rows: int) -> "pa.Array[Any]":
    column: pa.Array[Any] = pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)
    return column


_shared_numbers = lru_cache(maxsize=64)(_column)
_shared_texts = lru_cache(maxsize=4)(_column)
"""Few: a topic's name has up to 249 bytes in each row."""
