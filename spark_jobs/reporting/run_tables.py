"""The tables in a run's folder: a failed or partial run has only those of its finished steps."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.flow import Step
from spark_jobs.storage.layout import step_key
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import read_table
from spark_jobs.storage.run_folder import DONE
from spark_jobs.tables.materialise import TABLE_FILES


@dataclass(frozen=True, slots=True)
class RunTables:
    """The tables of one run, by step and file; None where it has none."""

    lake: ObjectStore
    run_id: str

    def has(self, step: Step, path: str) -> bool:
        return self.lake.stat(self.key(step, path)) is not None

    def table(self, step: Step, path: str, columns: list[str] | None = None) -> pa.Table | None:
        """A small table, whole; with `columns` those alone."""
        if not self.has(step, path):
            return None
        table = read_table(self.lake, self.key(step, path))
        return table if columns is None else table.select(columns)

    def rows(self, step: Step, path: str) -> list[dict[str, Any]]:
        """The rows of a small table; none if there is no such table."""
        table = self.table(step, path)
        return [] if table is None else table.to_pylist()

    def table_files(self, step: Step) -> Iterator[dict[str, Any]]:
        """The files that `step` made for published tables, as far as they are still there."""
        for entry in self.rows(step, TABLE_FILES.file):
            if entry["file"] is not None and self.has(step, entry["file"]):
                yield entry

    def json(self, step: Step, path: str) -> Any | None:
        return json.loads(self.lake.read(self.key(step, path))) if self.has(step, path) else None

    def counts(self, step: Step) -> dict[str, int]:
        """What the step counted, if it is done."""
        done = self.json(step, DONE)
        return {} if done is None else dict(done["counts"])

    def key(self, step: Step, path: str) -> str:
        return step_key(self.run_id, step, path)
