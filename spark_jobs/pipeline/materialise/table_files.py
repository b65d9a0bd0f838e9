"""Files of tables: written in row groups of a bounded size, and a new file when one is large enough."""

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from spark_jobs.lake.parquet_file import ParquetOutput
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.pipeline.materialise.job import TableFile, TaskContext

GROUP_BYTES = 64 * 2**20
"""Bytes of rows in memory that become one row group; Arrow also ends a group after 2^20 rows."""


class TableFiles:
    """Takes tables in order and writes them below `folder`; use as a context manager."""

    def __init__(
        self,
        context: TaskContext,
        name: Callable[[int], str],
        schema: pa.Schema,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """`name` gives the path of the first, second, … file; a file ends at about `file_bytes`."""
        self._store, self._folder, self._name = context.lake, context.folder, name
        self._file_bytes = context.settings.limits.file_bytes
        self._schema, self._options = schema, {"store_schema": False, **(options or {})}
        self._held: list[pa.Table] = []
        self._held_bytes = self._rows = 0
        self._output: ParquetOutput | None = None
        self.files: list[TableFile] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._output is not None:
            self._output.__exit__(kind, error, trace)

    def add(self, table: pa.Table) -> None:
        """Append rows; they are written once there are enough of them."""
        if not table.num_rows:
            return
        self._held.append(table)
        self._held_bytes += table.nbytes
        if self._held_bytes >= GROUP_BYTES:
            self._write_group()

    def finish(self) -> tuple[TableFile, ...]:
        """Write what is still held; the files in order, none where there were no rows."""
        self._write_group()
        self._close()
        return tuple(self.files)

    def _write_group(self) -> None:
        if not self._held:
            return
        group = pa.concat_tables(self._held)
        self._held, self._held_bytes = [], 0
        if self._output is None:
            self._output, self._rows = ParquetOutput(self._store, self._schema, self._options), 0
        self._output.write(group)
        self._rows += group.num_rows
        if self._output.size >= self._file_bytes:
            self._close()

    def _close(self) -> None:
        if self._output is None:
            return
        with self._output as output:
            written: OutputFile = output.finish(self._folder, self._name(len(self.files)))
        self.files.append(TableFile(output=written, rows=self._rows))
        self._output = None
