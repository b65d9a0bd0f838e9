"""The listing of a step: which files it wrote for which published table; `publish` reads it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import pyarrow as pa

from spark_jobs.flow import Step
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.run_folder import OutputFile, RunFolder
from spark_jobs.tables.materialise import TABLE_FILES


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """One file of a table, or a table without news: then `file` is None.

    `topic` is the one whose records the table holds, None for Onceover's own tables.
    """

    namespace: str
    table: str
    topic: str | None = None
    file: str | None = None
    rows: int = 0
    bytes: int = 0


def entries_of(
    namespace: str, table: str, files: Iterable[tuple[OutputFile, int]], *, topic: str | None = None
) -> list[TableEntry]:
    """An entry for each file of a table; without files, one entry for the table."""
    found = [
        TableEntry(namespace=namespace, table=table, topic=topic, file=file.path, rows=rows, bytes=file.size)
        for file, rows in files
    ]
    return found or [TableEntry(namespace=namespace, table=table, topic=topic)]


def put_listing(folder: RunFolder, step: Step, entries: Iterable[TableEntry]) -> OutputFile:
    """Writes the listing of `step`."""
    rows = [asdict(entry) for entry in entries]
    table = TABLE_FILES.cast(pa.Table.from_pylist(rows, schema=TABLE_FILES.schema))
    return put_table(folder.lake, folder.key(step), TABLE_FILES.file, table)


def read_listing(folder: RunFolder, step: Step) -> list[TableEntry]:
    """The listing of `step`; empty if it has none."""
    key = folder.key(step, TABLE_FILES.file)
    if folder.lake.stat(key) is None:
        return []
    return [TableEntry(**row) for row in read_table(folder.lake, key).to_pylist()]
