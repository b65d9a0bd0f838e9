"""Data files as manifests describe them; what is the same for all files of a table is found out once."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import (
    _check_pyarrow_schema_compatible,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata

THREADS = 8
"""Footers that are read at a time: from afar each is a wait."""


@dataclass(frozen=True, slots=True)
class Footers:
    """Reads the footers of files for one table; threads may share it."""

    io: FileIO
    table: TableMetadata
    plan: Any
    mapping: dict[str, int]
    known: list[pa.Schema] = field(default_factory=list)
    """Schemas of files that pyiceberg itself has found to fit the table."""

    def describe_all(self, paths: Sequence[str]) -> Iterator[DataFile]:
        """A file's entry for each path, in order."""
        if len(paths) == 1:  # threads that wait for each other take longer than a file
            yield self.describe(paths[0])
            return
        with ThreadPoolExecutor(THREADS) as threads:
            yield from threads.map(self.describe, paths)

    def describe(self, path: str) -> DataFile:
        """The file's entry, or the error that pyiceberg raises for a file that does not fit."""
        file = self.io.new_input(path)
        with file.open() as stream:
            footer = pq.read_metadata(cast("IO[bytes]", stream))
        schema = footer.schema.to_arrow_schema()
        if not any(schema.equals(each) for each in self.known):
            _check_pyarrow_schema_compatible(
                self.table.schema(), schema, format_version=self.table.format_version
            )
            self.known.append(schema)
        return self._entry(path, len(file), footer)

    def _entry(self, path: str, size: int, footer: pq.FileMetaData) -> DataFile:
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=footer, stats_columns=self.plan, parquet_column_mapping=self.mapping
        )
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=statistics.partition(self.table.spec(), self.table.schema()),
            file_size_in_bytes=size,
            sort_order_id=None,
            spec_id=self.table.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )


def footers_of(io: FileIO, table: TableMetadata) -> Footers:
    """The reader of footers for a table as it is now."""
    schema = table.schema()
    plan = compute_statistics_plan(schema, table.properties)
    return Footers(io, table, plan, parquet_path_to_id_mapping(schema))
