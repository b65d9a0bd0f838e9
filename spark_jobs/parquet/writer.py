"""The writer of a file: tables in, row groups out, and at the end what is known of them."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from spark_jobs.parquet.arrow import shred_batch
from spark_jobs.parquet.chunks import Chunk
from spark_jobs.parquet.footer import MAGIC, WrittenChunk, WrittenGroup, end_of_file
from spark_jobs.parquet.leaves import schema_leaves
from spark_jobs.parquet.pages import Press
from spark_jobs.parquet.shreds import Shred

GROUP_BYTES = 64 * 2**20
"""Bytes of values, not compressed, after which a row group ends."""
GROUP_ROWS = 2**20
"""Or rows: where these are small, a reader needs many times the bytes for them."""


class Output(Protocol):
    """What takes a file's bytes, all of them."""

    def writelines(self, parts: Sequence[bytes], /) -> Any:
        """Append all of `parts`."""


class ParquetWriter:
    """Writes tables of `schema` to `output`; what is not yet a row group is held as pages."""

    def __init__(self, output: Output, schema: pa.Schema) -> None:
        self._output, self._schema = output, schema
        self._press = Press()
        self._position = 0
        self._groups: list[WrittenGroup] = []
        self._begin_group()
        self._put(MAGIC)

    def write_table(self, table: pa.Table) -> None:
        """Append rows: pages of their own in every column."""
        for batch in table.combine_chunks().to_batches():
            self.write_leaves(shred_batch(batch))

    def write_leaves(self, leaves: Iterable[Shred]) -> None:
        """Append rows, one at least, that were taken apart: all leaves of the schema, in order."""
        for chunk, rows in zip(self._chunks, leaves, strict=True):
            chunk.add(rows)
        self._rows += rows.rows
        if self._rows >= GROUP_ROWS or sum(chunk.size for chunk in self._chunks) >= GROUP_BYTES:
            self._end_group()

    @property
    def held_bytes(self) -> int:
        """Bytes of pages that are not written yet."""
        return sum(chunk.held_bytes for chunk in self._chunks)

    def close(self) -> None:
        """Write the rest."""
        self._end_group()
        self._put(end_of_file(self._schema, self._groups, self._position))

    def _begin_group(self) -> None:
        self._rows = 0
        self._chunks = [Chunk(leaf, self._press) for leaf in schema_leaves(self._schema)]

    def _end_group(self) -> None:
        if self._rows:
            parts: list[bytes] = []
            chunks = tuple([self._finish(chunk, parts) for chunk in self._chunks])
            self._groups.append(WrittenGroup(rows=self._rows, chunks=chunks))
            self._output.writelines(parts)
            self._begin_group()

    def _finish(self, chunk: Chunk, parts: list[bytes]) -> WrittenChunk:
        """Appends what is to be written of `chunk` to `parts`."""
        dictionary, pages = chunk.all_pages()
        written = WrittenChunk(
            leaf=chunk.leaf,
            position=self._position,
            pages=tuple(each.page for each in pages),
            dictionary=None if dictionary is None else dictionary.page,
        )
        for each in pages if dictionary is None else (dictionary, *pages):
            parts += (each.header, each.body)
        self._position += written.size
        return written

    def _put(self, data: bytes) -> None:
        self._output.writelines([data])
        self._position += len(data)
