"""The listing of a step: which files it wrote for which published table; `publish` reads it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

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


def final_listing(folder: RunFolder) -> list[tuple[Step, TableEntry]]:
    """What `materialise` and `deduplicate` wrote for published tables, each with its step.

    A file of `deduplicate` replaces the one of `materialise` at the same path; without rows it removes it.
    """
    later = [(Step.DEDUPLICATE, entry) for entry in read_listing(folder, Step.DEDUPLICATE)]
    replaced = {(entry.topic, entry.file) for _, entry in later if entry.topic is not None}
    found = [
        (Step.MATERIALISE, _without_file(entry) if (entry.topic, entry.file) in replaced else entry)
        for entry in read_listing(folder, Step.MATERIALISE)
    ]
    return [*found, *((step, entry) for step, entry in later if entry.rows or entry.file is None)]


def _without_file(entry: TableEntry) -> TableEntry:
    """The table of an entry: it is listed also without new rows."""
    return replace(entry, file=None, rows=0, bytes=0)


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
