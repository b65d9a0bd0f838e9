"""SQL on a log through DuckDB: the tables of a log, read when a query names them."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from spark_jobs.extras import Extra, require
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.reading.contracts import HEADER_TABLES, LOG_RECORDS
from spark_jobs.reading.read_log import record_batches
from spark_jobs.reading.read_plan import PlannedRead, ReadOptions, isolation_of
from spark_jobs.reading.records import record_schema
from spark_jobs.reading.scan_log import scan_tables
from spark_jobs.reading.stored_log import PartitionFiles, choose, find_partitions
from spark_jobs.tables.contract import TIMESTAMP

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_PLAIN = pa.timestamp("us")
_ROWS_AT_A_TIME = 100_000
_FORMAT, _LOCAL = ds.IpcFileFormat(), LocalFileSystem()
Read = Callable[[tuple[str, ...], Any], pa.RecordBatchReader]
"""The rows of the named columns; those that a filter certainly refuses may be left out."""


class QueryFailed(OnceoverError):
    """DuckDB refused the query, or the log could not be read; the message is DuckDB's."""


class LogDataset(ds.Dataset):
    """A table of a log for DuckDB, which asks for the columns and filters of a query.

    Every scan reads the log again, so that a query may name a table more than once.
    """

    def __init__(self, schema: pa.Schema, read: Read) -> None:
        """Arrow's own constructor refuses to be called."""
        self._columns, self._read = in_utc(schema), read

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._columns

    def scanner(  # type: ignore[override]
        self,
        columns: Iterable[str] | None = None,
        filter: Any = None,  # noqa: A002 — Arrow's name
        **options: Any,
    ) -> ds.Scanner:
        """The rows of these columns that `filter` accepts."""
        chosen = self._columns.names if columns is None else list(columns)
        used = set(chosen) | (set() if filter is None else set(re.findall(r"\w+", str(filter))))
        names = tuple(name for name in self._columns.names if name in used) or (self._columns.names[2],)
        schema = pa.schema([self._columns.field(name) for name in names])
        batches = (batch.cast(schema) for batch in self._read(names, filter))
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        return ds.Scanner.from_batches(reader, columns=chosen, filter=filter, **options)


def in_utc(schema: pa.Schema) -> pa.Schema:
    """Timestamps in UTC without a time zone: DuckDB's functions on those need an extension to be loaded."""
    plain = (field.with_type(_PLAIN) if field.type == TIMESTAMP else field for field in schema)
    return pa.schema(list(plain))


def open_log(
    path: str | os.PathLike[str],
    *,
    topics: Iterable[str] | None = None,
    isolation: str = "read_committed",
    encryption_keys: Mapping[str, str] | None = None,
) -> "DuckDBPyConnection":
    """A DuckDB connection in memory with the tables of the log."""
    require(Extra.QUERY, "SQL on a log")
    import duckdb  # noqa: PLC0415 — an extra

    chosen, level = choose(find_partitions(path, encryption_keys), topics, None), isolation_of(isolation)

    def records(columns: tuple[str, ...], filter: Any) -> pa.RecordBatchReader:  # noqa: A002 — Arrow's name
        wanted = ReadOptions(isolation=level, columns=columns)
        batches = record_batches(chosen, wanted, lambda piece: may_match(piece, filter))
        return pa.RecordBatchReader.from_batches(record_schema(columns), batches)

    connection = duckdb.connect()
    connection.register(LOG_RECORDS.name, LogDataset(LOG_RECORDS.schema, records))
    for name, contract in HEADER_TABLES.items():
        connection.register(name, LogDataset(contract.schema, _headers(chosen, name)))
    return connection


def may_match(piece: PlannedRead, filter: Any) -> bool:  # noqa: A002 — Arrow's name
    """Whether records of the piece can pass the filter, by its topic, partition and offsets.

    Arrow decides, as it does for files of a partitioned dataset; no file is opened.
    """
    known = ds.field("offset") < piece.offsets.end
    if piece.offsets.first is not None:
        known &= ds.field("offset") >= piece.offsets.first
    for name, value in (("topic", piece.topic), ("partition", piece.partition)):
        known &= ds.field(name).is_null() if value is None else ds.field(name) == value
    fragment = _FORMAT.make_fragment(piece.file.key, filesystem=_LOCAL, partition_expression=known)
    pieces = ds.FileSystemDataset([fragment], in_utc(LOG_RECORDS.schema), _FORMAT, filesystem=_LOCAL)
    return filter is None or any(pieces.get_fragments(filter))


def _headers(chosen: tuple[PartitionFiles, ...], name: str) -> Read:
    return lambda columns, _: scan_tables(chosen, [name])[name].select(list(columns)).to_reader()


def read_rows(connection: "DuckDBPyConnection", sql: str) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """The names of the columns and the rows of a query."""
    with _reported():
        reader = _relation(connection, sql).to_arrow_reader(_ROWS_AT_A_TIME)
    return reader.schema.names, _rows(reader)


def _rows(reader: pa.RecordBatchReader) -> Iterator[tuple[Any, ...]]:
    with _reported():
        for batch in reader:
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def write_parquet(connection: "DuckDBPyConnection", sql: str, file: os.PathLike[str]) -> int:
    """Writes the rows of a query to a new Parquet file, which appears when it is complete."""
    with _reported(), atomic_file(Path(file)) as unfinished:
        reader = _relation(connection, sql).to_arrow_reader(_ROWS_AT_A_TIME)
        rows = 0
        with pq.ParquetWriter(unfinished, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
                rows += batch.num_rows
    return rows


@contextmanager
def atomic_file(file: Path) -> Iterator[Path]:
    """A file beside `file` that replaces it at the end, or is removed after an error."""
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def _relation(connection: "DuckDBPyConnection", sql: str) -> "DuckDBPyRelation":
    found = connection.sql(sql)
    if found is None:
        raise QueryFailed("expected a query that returns rows, such as SELECT count(*) FROM records")
    return found


@contextmanager
def _reported() -> Iterator[None]:
    """Raises `QueryFailed` with the message of DuckDB, or of Arrow, which reads for it."""
    import duckdb  # noqa: PLC0415 — an extra

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as error:  # Arrow passes an error of a store as OSError
        raise QueryFailed(_message(error)) from error


def _message(error: Exception) -> str:
    """Without the traceback that Arrow puts before an error of the reader."""
    text = str(error).strip()
    return text.rpartition("\n")[2] if "Traceback (most recent call last)" in text else text
