"""Files of tables: written in row groups of a bounded size, and a new file when one is large enough."""

from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

import pyarrow as pa

from spark_jobs.materialising.record_leaves import Leaves
from spark_jobs.materialising.summaries import TableFile, Workshop
from spark_jobs.storage.paged_file import PagedOutput
from spark_jobs.storage.parquet_file import ParquetOutput
from spark_jobs.storage.run_folder import OutputFile

GROUP_BYTES = 64 * 2**20
"""Bytes of rows in memory that become one row group."""
PAGES_BYTES = 4 * 2**20
"""Bytes of rows in memory that become pages of their own."""

Output = TypeVar("Output", ParquetOutput, PagedOutput)


class _Files(Generic[Output]):
    """Takes tables in order and writes them below `folder`; use as a context manager."""

    def __init__(
        self,
        workshop: Workshop,
        name: Callable[[int], str],
        begin: Callable[[], Output],
        held_bytes: int,
    ) -> None:
        """`name` gives the path of the first, second, … file; a file ends at about `file_bytes`."""
        self._folder, self._name = workshop.folder, name
        self._begin: Callable[[], Output] = begin
        self._file_bytes, self._most_held = workshop.settings.limits.file_bytes, held_bytes
        self._held: list[pa.Table] = []
        self._held_bytes = self._rows = 0
        self._output: Output | None = None
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
        if self._held_bytes >= self._most_held:
            self._write_held()

    def finish(self) -> tuple[TableFile, ...]:
        """Write what is still held; the files in order, none where there were no rows."""
        self._write_held()
        self._close()
        return tuple(self.files)

    def _write_held(self) -> None:
        if self._held:
            table = pa.concat_tables(self._held)
            self._held, self._held_bytes = [], 0
            self._write(table.num_rows, lambda output: output.write(table))

    def _write(self, rows: int, write: Callable[[Output], None]) -> None:
        if self._output is None:
            self._output, self._rows = self._begin(), 0
        write(self._output)
        self._rows += rows
        if self._output.grown >= self._file_bytes:
            self._close()

    def _close(self) -> None:
        if self._output is None:
            return
        with self._output as output:
            written: OutputFile = output.finish(self._folder, self._name(len(self.files)))
        self.files.append(TableFile(output=written, rows=self._rows))
        self._output = None


class TableFiles(_Files[ParquetOutput]):
    """Files of a table of any kind."""

    def __init__(self, workshop: Workshop, name: Callable[[int], str], schema: pa.Schema) -> None:
        options = {"store_schema": False}
        super().__init__(
            workshop, name, lambda: ParquetOutput(workshop.lake, schema, options), held_bytes=GROUP_BYTES
        )


class RecordFiles(_Files[PagedOutput]):
    """Files of a topic's table: most of what a night writes, so it is done by our own writer."""

    def __init__(self, workshop: Workshop, name: Callable[[int], str], schema: pa.Schema) -> None:
        super().__init__(workshop, name, lambda: PagedOutput(workshop.lake, schema), held_bytes=PAGES_BYTES)

    def add_leaves(self, leaves: Leaves) -> None:
        """Append rows that were taken apart, as pages of their own."""
        self._write_held()
        self._write(leaves[0].rows, lambda output: output.write_leaves(leaves))
