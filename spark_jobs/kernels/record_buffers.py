"""The memory that decoded records go to: what Arrow calls offsets, data and validity, one set per column.

Offsets are int32, as Arrow's `binary` has them: half the size of int64, and the type that Iceberg and Spark
take. They suffice because an arena of at most 2 GiB holds everything that they point to.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.memory import Bytes

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
