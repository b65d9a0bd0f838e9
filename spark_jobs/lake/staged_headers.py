"""Headers of staged objects: `stage` writes them where it reads an object whole, and `index` uses them.

`staging/2024-05-01/headers/ab12…-1.parquet` has a row for each batch of the object with this SHA-256, from
its first byte up to the first one that belongs to no intact batch of format 2. `index` reads the object only
behind the last row. The files are a cache: without one, `index` reads the object and has the same rows.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, LENGTH_OFFSET, LOG_OVERHEAD, MAGIC_V2
from spark_jobs.kernels.columns import HeaderColumns, allocate, concatenate
from spark_jobs.kernels.scan import StopReason, scan_chunk
from spark_jobs.lake.errors import Damaged, ObjectMissing
from spark_jobs.lake.layout import STAGING, staging_key
from spark_jobs.lake.object_store import ObjectStat, ObjectStore
from spark_jobs.lake.parquet_file import ParquetOutput, iter_groups
from spark_jobs.tables.index import PARQUET_OPTIONS

VERSION = 1
HEADERS = "headers"
ROWS_PER_GROUP = 1 << 14
"""Rows held before they are written: 1.3 MB."""
ROWS_AT_A_TIME = 1 << 12
LARGEST_HELD = 8 * 2**20
"""Headers end before a batch of more bytes, which would have to be held until it is whole."""
SAMPLE, SMALLEST_BATCH = 64, 1024
"""If batches are smaller on average, after so many of them, a file would cost more than it saves."""
DELETE_THREADS = 16

_COLUMNS = {name: column for name, column in allocate(0)._asdict().items() if name != "crc_ok"}
SCHEMA = pa.schema([(name, pa.from_numpy_dtype(column.dtype)) for name, column in _COLUMNS.items()])
OPTIONS: dict[str, Any] = {**PARQUET_OPTIONS, "write_statistics": ["position"]}


def headers_folder(day: date) -> str:
    return staging_key(day, HEADERS)


def headers_file(sha256: str) -> str:
    """The file's name; another version of the format or of the scan has other names."""
    return f"{sha256}-{VERSION}.parquet"


def staged_headers(lake: ObjectStore, day: date) -> frozenset[str]:
    """Names of all files of the run date, of any version."""
    return frozenset(found.key.rpartition("/")[2] for found in lake.list(headers_folder(day)))


def clear_headers(lake: ObjectStore, day: date) -> None:
    """Removes the files of the run date, once `index` has used them."""
    keys = [found.key for found in lake.list(headers_folder(day))]
    with ThreadPoolExecutor(DELETE_THREADS) as threads:
        list(threads.map(lake.delete, keys))


def abandoned_headers(lake: ObjectStore, last: date) -> Iterator[ObjectStat]:
    """Files of run dates up to `last` whose `index` was never finished."""
    for found in lake.list(STAGING):
        day, _, rest = found.key.removeprefix(STAGING).partition("/")
        if rest.startswith(f"{HEADERS}/") and date.fromisoformat(day) <= last:
            yield found


class HeaderFile:
    """Collects the headers of one object, whose bytes are added in pieces, into `output`.

    It holds an incomplete batch and the rows of a row group, however large the object is.
    """

    def __init__(self, output: ParquetOutput) -> None:
        self._output = output
        self._held: list[bytes] = []
        self._held_bytes, self._needed = 0, 0
        self._parts: list[HeaderColumns] = []
        self._rows, self._end, self._is_over = 0, 0, False

    def add(self, piece: bytes) -> None:
        """The next bytes of the object."""
        if self._is_over:
            return
        self._held.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes >= self._needed:
            self._scan(self._held[0] if len(self._held) == 1 else b"".join(self._held))

    def finish(self, folder: str, *, sha256: str, size: int) -> bool:
        """Moves the file into `folder`, if it has any use; the object is the one of this digest and size."""
        if not self._rows or self._has_small_batches:
            return False
        self._write(1)
        self._output.finish(folder, headers_file(sha256), metadata=_metadata(sha256, size))
        return True

    @property
    def _has_small_batches(self) -> bool:
        return self._rows >= SAMPLE and self._end < self._rows * SMALLEST_BATCH

    def _scan(self, data: bytes) -> None:
        position, reason = 0, StopReason.FULL
        while reason is StopReason.FULL:
            found = scan_chunk(data, start=position, capacity=ROWS_AT_A_TIME)
            position, reason = found.stop.position, found.stop.reason
            older = np.flatnonzero(found.columns.magic != MAGIC_V2)
            self._take(found.columns.part(0, int(older[0])) if older.size else found.columns)
            reason = StopReason.BAD_MAGIC if older.size else reason
        rest = data[position:]
        self._end += position
        self._held, self._held_bytes, self._needed = [rest], len(rest), _needed(rest)
        is_stuck = reason not in {StopReason.END, StopReason.TORN}
        if is_stuck or self._needed > LARGEST_HELD or self._has_small_batches:
            self._is_over, self._held = True, []

    def _take(self, columns: HeaderColumns) -> None:
        if columns.rows:
            kept = columns.pick(np.arange(columns.rows))  # a view would keep unused rows, too
            kept.position[:] += self._end
            self._parts.append(kept)
            self._rows += kept.rows
            self._write(ROWS_PER_GROUP)

    def _write(self, fewest: int) -> None:
        """Writes row groups as long as `fewest` rows are held; which rows a group has depends on no piece."""
        held = sum(part.rows for part in self._parts)
        if held < fewest:
            return
        rows = concatenate(self._parts)
        start = 0
        while held - start >= fewest:
            stop = min(start + ROWS_PER_GROUP, held)
            self._output.write(_table(rows.part(start, stop)))
            start = stop
        self._parts = [rows.part(start, held)] if start < held else []


def read_headers(
    lake: ObjectStore, folder: str, *, sha256: str, size: int, start: int, stop: int
) -> Iterator[HeaderColumns]:
    """Headers of the batches that begin in `start`..`stop`, in parts, as far as they follow one another.

    Nothing if no batch begins at `start`. Where the file is missing or damaged, or has other rows than those
    of consecutive batches, the headers end.
    """
    key, metadata = f"{folder}/{headers_file(sha256)}", _metadata(sha256, size)
    try:
        for found in iter_groups(
            lake, key, "position", start, stop - 1, columns=SCHEMA.names, metadata=metadata
        ):
            rows = _columns(found)
            rows = rows.part(*np.searchsorted(rows.position, [start, stop]).tolist())
            followed = rows.part(0, _consecutive(rows, start, size))
            if followed.rows:
                yield followed
                start = int(followed.position[-1] + followed.size[-1])
            if followed.rows < rows.rows:
                return
    except (Damaged, FileNotFoundError, ObjectMissing):
        return


def _consecutive(rows: HeaderColumns, start: int, size: int) -> int:
    """How many rows are batches of an object of `size` bytes that follow one another from `start` on."""
    expected = np.concatenate(([start], (rows.position + rows.size)[:-1]))[: rows.rows]
    is_right = (rows.position == expected) & (rows.size >= HEADER_SIZE)
    is_right &= rows.size <= size - rows.position
    wrong: npt.NDArray[np.intp] = np.flatnonzero(~is_right)
    return int(wrong[0]) if wrong.size else rows.rows


def _needed(rest: bytes) -> int:
    """Bytes of the batch that `rest` begins with, or those that show its length."""
    if len(rest) < LOG_OVERHEAD:
        return HEADER_SIZE
    return LOG_OVERHEAD + int.from_bytes(rest[LENGTH_OFFSET:LOG_OVERHEAD], signed=True)


def _metadata(sha256: str, size: int) -> Mapping[str, str]:
    return {"onceover.sha256": sha256, "onceover.size": str(size)}


def _table(rows: HeaderColumns) -> pa.Table:
    return pa.table({name: getattr(rows, name) for name in SCHEMA.names}, schema=SCHEMA)


def _columns(found: pa.RecordBatch) -> HeaderColumns:
    columns = {name: found.column(name).to_numpy(zero_copy_only=False) for name in SCHEMA.names}
    return HeaderColumns(crc_ok=np.ones(found.num_rows, dtype=np.bool_), **columns)
