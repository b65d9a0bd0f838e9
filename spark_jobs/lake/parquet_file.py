"""Parquet files in a store: written in parts to a scratch file, read in parts from the store.

Each worker has one core, so files are read with one thread.
"""

import hashlib
import io
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from typing_extensions import Buffer

from spark_jobs.lake.errors import Damaged, ObjectMissing
from spark_jobs.lake.file_store import begin_sync, translated
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import OutputFile


class ScratchFile(ABC):
    """A local file at the unique path `_path` until it is moved into the store; removed at the end.

    Use as a context manager.
    """

    def __init__(self, store: ObjectStore, suffix: str) -> None:
        self._store = store
        self._path = store.scratch() / f"{secrets.token_hex(8)}{suffix}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._close()
        finally:  # closing fails, too, if the disk is full
            self._path.unlink(missing_ok=True)

    @property
    def _is_read_again(self) -> bool:
        """Whether the store uploads the bytes instead of moving the file."""
        return self._store.local_path(self._path.name) is None

    @abstractmethod
    def _close(self) -> None:
        """Closes the file; closing twice is allowed."""


class HashedFile(io.RawIOBase):
    """A new file at `path`, written sequentially, with the digest of the written bytes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb", buffering=0)
        self._sha256, self.size = hashlib.sha256(), 0

    @property
    def sha256(self) -> str:
        """The digest of all bytes so far."""
        return self._sha256.hexdigest()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Buffer) -> int:
        """Writes all of `data`; one system call writes less if the disk is nearly full, and at most 2 GiB."""
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view):
            written += self._file.write(view[written:])
        self._sha256.update(view)
        self.size += written
        return written

    def close(self) -> None:
        """Closing twice is allowed."""
        self._file.close()
        super().close()


ROWS_AT_A_TIME = 1 << 17
BYTES_AT_A_TIME = 32 * 2**20
BUFFER_BYTES = 1 << 18
"""Bytes collected before they are written: small row groups would be written page by page."""
RUN_STEP_AGAIN = "remove the folder of its step, and the step is done again"


class ArrowWriter:
    """Arrow's Parquet writer with a buffer for small writes."""

    def __init__(self, file: HashedFile, schema: pa.Schema, options: Mapping[str, Any]) -> None:
        self._buffer = pa.BufferedOutputStream(pa.PythonFile(file, mode="w"), BUFFER_BYTES)
        self._writer = pq.ParquetWriter(self._buffer, schema, **options)

    def write_table(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        with self._buffer:
            self._writer.close()


class ParquetOutput(ScratchFile):
    """A Parquet file that becomes visible in the store with `finish`. Use as a context manager."""

    def __init__(
        self, store: ObjectStore, schema: pa.Schema, options: Mapping[str, Any] | None = None
    ) -> None:
        """`options` are those of Arrow's Parquet writer; zstd by default."""
        super().__init__(store, ".parquet")
        self._schema = schema
        self._options = {"compression": "zstd", "write_page_checksum": True, **(options or {})}
        self._output: tuple[HashedFile, ArrowWriter] | None = None

    @property
    def size(self) -> int:
        """Bytes written so far, without those in the buffer."""
        return self._output[0].size if self._output is not None else 0

    def write(self, table: pa.Table) -> None:
        """Appends the rows of `table` as a row group."""
        with self._opened() as (file, writer):
            before = file.size
            writer.write_table(table)
            if file.size > before:
                begin_sync(self._path)

    def prune(self) -> None:
        """Closes the file; the next `write` starts an empty one."""
        if self._output is not None:
            (file, writer), self._output = self._output, None
            with translated(str(self._path)), closing(file):
                writer.close()

    def finish(self, folder: str, path: str) -> OutputFile:
        """Moves the file to `path` below the key `folder`; also a file without rows."""
        with self._opened() as (file, _):
            pass
        self.prune()
        self._store.adopt(self._path, f"{folder}/{path}", durable=False)
        return OutputFile(path=path, size=file.size, digest=file.sha256)

    def _close(self) -> None:
        self.prune()

    @contextmanager
    def _opened(self) -> Iterator[tuple[HashedFile, ArrowWriter]]:
        """The file and its writer, created at first use; errors are those of `lake.errors`."""
        with translated(str(self._path)):
            if self._output is None:
                file = HashedFile(self._path)
                self._output = file, ArrowWriter(file, self._schema, self._options)
            yield self._output


def put_table(store: ObjectStore, folder: str, path: str, table: pa.Table) -> OutputFile:
    """Writes a small table at `path` below the key `folder`."""
    with ParquetOutput(store, table.schema) as output:
        output.write(table)
        return output.finish(folder, path)


def read_table(store: ObjectStore, key: str) -> pa.Table:
    """The whole of a small table."""
    with _opened(store, key) as file:
        return file.read()


def iter_rows(
    store: ObjectStore, key: str, *, columns: list[str] | None = None, rows: int = ROWS_AT_A_TIME
) -> Iterator[pa.RecordBatch]:
    """The rows in order, at most `rows` at a time; memory is that of a part and one row group."""
    with _opened(store, key) as file:
        yield from file.iter_batches(rows, columns=columns, use_threads=False)


def iter_sized_rows(
    store: ObjectStore, key: str, *, columns: list[str] | None = None, size: int = BYTES_AT_A_TIME
) -> Iterator[pa.RecordBatch]:
    """The rows in order, in parts of one row group and about `size` bytes, however large values are.

    The same rows are in a part whichever `columns` are read.
    """
    with _opened(store, key) as file:
        for group in range(file.num_row_groups):
            rows = _rows_of_size(file.metadata.row_group(group), size)
            yield from file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)


def _rows_of_size(group: pq.RowGroupMetaData, size: int) -> int:
    total = sum(group.column(place).total_uncompressed_size for place in range(group.num_columns))
    return min(max(size * group.num_rows // max(total, 1), 1), ROWS_AT_A_TIME)


def greatest(store: ObjectStore, key: str, column: str) -> Any | None:
    """The greatest value of `column` by the file's statistics; None if it has no value."""
    with _opened(store, key) as file:
        place = [file.schema.column(i).path for i in range(len(file.schema))].index(column)
        groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        found = [group.column(place).statistics for group in groups]
        values: list[Any] = [each.max for each in found if each is not None and each.has_min_max]
        return max(values, default=None)


def iter_row_range(
    store: ObjectStore, key: str, first: int, stop: int, *, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows `first` to `stop` (excluded), in parts; only the row groups that hold them are read."""
    with _opened(store, key) as file:
        groups, start = _groups_of(file, first, stop)
        for batch in file.iter_batches(ROWS_AT_A_TIME, row_groups=groups, columns=columns, use_threads=False):
            if start >= stop:
                return  # the row group continues behind `stop`, and Arrow does not check a negative length
            part = batch.slice(max(first - start, 0), stop - max(first, start))
            start += batch.num_rows
            if part.num_rows:
                yield part


def read_groups(
    store: ObjectStore, key: str, column: str, first: int, last: int, *, columns: list[str] | None = None
) -> pa.Table:
    """The row groups whose statistics allow a value of `column` from `first` to `last`."""
    with _opened(store, key) as file:
        groups = _groups_within(file, column, first, last)
        return file.read_row_groups(groups, columns=columns, use_threads=False)


def iter_groups(
    store: ObjectStore,
    key: str,
    column: str,
    first: int,
    last: int,
    *,
    columns: list[str],
    rows: int = ROWS_AT_A_TIME,
) -> Iterator[pa.RecordBatch]:
    """The same in parts of at most `rows`; memory is that of a part and one row group."""
    with _opened(store, key) as file:
        groups = _groups_within(file, column, first, last)
        yield from file.iter_batches(rows, row_groups=groups, columns=columns, use_threads=False)


def iter_groups_of(
    store: ObjectStore, key: str, column: str, values: npt.NDArray[np.int64], *, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """The row groups whose statistics allow one of the sorted `values` of `column`, in parts."""
    return iter_groups_where(
        store, key, column, lambda low, high: _any_between(values, low, high), columns=columns
    )


def iter_groups_where(
    store: ObjectStore, key: str, column: str, allows: Callable[[Any, Any], bool], *, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """The row groups for which `allows` is true of the least and the greatest value of `column`, in parts."""
    with _opened(store, key) as file:
        groups = _groups_where(file, column, allows)
        yield from file.iter_batches(ROWS_AT_A_TIME, row_groups=groups, columns=columns, use_threads=False)


def _any_between(values: npt.NDArray[np.int64], low: int, high: int) -> bool:
    return bool(np.searchsorted(values, low, "left") < np.searchsorted(values, high, "right"))


def _groups_within(file: pq.ParquetFile, column: str, first: int, last: int) -> list[int]:
    return _groups_where(file, column, lambda low, high: bool(low <= last and high >= first))


def _groups_where(file: pq.ParquetFile, column: str, allows: Callable[[Any, Any], bool]) -> list[int]:
    """The row groups with rows whose least and greatest value are allowed, or unknown."""
    place = file.schema_arrow.get_field_index(column)
    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    found = [group.num_rows > 0 and _is_allowed(group.column(place).statistics, allows) for group in groups]
    return [i for i, is_allowed in enumerate(found) if is_allowed]


def _is_allowed(statistics: pq.Statistics | None, allows: Callable[[Any, Any], bool]) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    return allows(statistics.min, statistics.max)


def _groups_of(file: pq.ParquetFile, first: int, stop: int) -> tuple[list[int], int]:
    """The row groups that overlap with the rows, and the first row of the first of them."""
    ends = list(accumulate(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)))
    starts = [0, *ends]
    groups = [i for i, end in enumerate(ends) if starts[i] < stop and end > first]
    return groups, starts[groups[0]] if groups else 0


@contextmanager
def _opened(store: ObjectStore, key: str) -> Iterator[pq.ParquetFile]:
    """The file; the checksums of its pages are verified."""
    path = store.local_path(key)
    try:
        source = str(path) if path is not None else pa.PythonFile(ObjectFile(store, key), mode="r")
        with pq.ParquetFile(source, memory_map=path is not None, page_checksum_verification=True) as file:
            yield file
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        problem = f"damaged, it cannot be read ({error}); {RUN_STEP_AGAIN}"
        raise Damaged(f"{store.url_of(key)}: {problem}") from error


class ObjectFile(io.RawIOBase):
    """An object as a file with random access; each read requests only its range from the store."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        found = store.stat(key)
        if found is None:
            raise ObjectMissing(f"{store.url_of(key)}: there is no such object")
        self._store, self._found, self._position = store, found, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._found.size}[whence]
        self._position = origin + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        rest = max(self._found.size - self._position, 0)
        length = rest if size < 0 else min(size, rest)
        if not length:
            return b""
        key, version = self._found.key, self._found.version
        data = self._store.read_range(key, self._position, length, version=version)
        self._position += len(data)
        return data
