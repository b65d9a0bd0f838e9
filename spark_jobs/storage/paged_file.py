"""Parquet files by our own writer: rows become pages as they come, and row groups when there are enough."""

from collections.abc import Iterable

import pyarrow as pa

from spark_jobs.parquet.shreds import Shred
from spark_jobs.parquet.writer import ParquetWriter
from spark_jobs.storage.direct_file import HashedDirectFile
from spark_jobs.storage.growing_file import GrowingFile
from spark_jobs.storage.object_store import ObjectStore


class PagedOutput(GrowingFile[ParquetWriter]):
    """A file in the making, to which rows can also be given taken apart."""

    def __init__(self, store: ObjectStore, schema: pa.Schema) -> None:
        super().__init__(store)
        self._schema = schema

    def write(self, table: pa.Table) -> None:
        """Append the rows of `table`, as pages of their own."""
        with self._opened() as (_, writer):
            writer.write_table(table)

    def write_leaves(self, leaves: Iterable[Shred]) -> None:
        """Append rows, one at least: all leaves of the schema, in order."""
        with self._opened() as (_, writer):
            writer.write_leaves(leaves)

    @property
    def grown(self) -> int:
        """Bytes so far, those that the writer holds back among them."""
        return self.size + (self._output[1].held_bytes if self._output is not None else 0)

    def _begin(self) -> tuple[HashedDirectFile, ParquetWriter]:
        file = HashedDirectFile(self._path, cached=self._is_read_again)
        return file, ParquetWriter(file, self._schema)
