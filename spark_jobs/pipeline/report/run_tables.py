"""Reads the tables in a run's folder, and counts batches by verdict and producer."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.flow import Step
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.lake.layout import step_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_rows, read_table
from spark_jobs.lake.run_folder import DONE
from spark_jobs.tables.contract import Contract
from spark_jobs.tables.materialise import TABLE_FILES

Row = dict[str, Any]
PLAIN = frozenset({Verdict.ACCEPTED.value, Verdict.OVERLAP.value})
"""Verdicts of batches that no producer has to be asked about; a duplicate is a retry, an overlap is not."""
COLUMNS = [
    "verdict", "producer_id", "producer_epoch", "expected_epoch", "base_sequence", "expected_sequence",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunTables:
    """The tables of one run, by step and file; a failed run has only those of its finished steps."""

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

    def rows(self, step: Step, path: str) -> list[Row]:
        """The rows of a small table; none if there is no such table."""
        table = self.table(step, path)
        return [] if table is None else table.to_pylist()

    def parts(
        self, step: Step, contract: Contract, columns: list[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a large table, of all its files; none if there is no such table."""
        prefix = contract.file.partition("{")[0].rstrip("/")
        for found in self.lake.list(self.key(step, prefix)):
            yield from iter_rows(self.lake, found.key, columns=columns)

    def table_files(self, step: Step) -> Iterator[Row]:
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


@dataclass(slots=True, kw_only=True)
class ProducerCounts:
    """A producer that something went wrong with, on any partition.

    `farthest` is by how many sequences its largest gap misses; `fenced_by` are newer epochs that it met.
    """

    producer_id: int
    verdicts: Counter[str] = field(default_factory=Counter)
    epochs: Counter[int] = field(default_factory=Counter)
    fenced_by: set[int] = field(default_factory=set)
    partitions: Counter[str] = field(default_factory=Counter)
    farthest: int = 0
    accepted: int = 0


Producers = dict[int, ProducerCounts]


def count_batches(lake: ObjectStore, key: str, partition: str) -> tuple[Counter[str], Producers]:
    """The verdicts of one file of `batches`, and the producers of those that are not plain."""
    counts: Counter[str] = Counter()
    producers: Producers = {}
    for rows in iter_rows(lake, key, columns=COLUMNS):
        found: Any = pc.value_counts(rows.column("verdict"))
        names, numbers = found.field("values").to_pylist(), found.field("counts").to_pylist()
        counts.update(dict(zip(names, numbers, strict=True)))
        for row in _grouped(rows):
            producer_id = row["producer_id"]
            _note(producers.setdefault(producer_id, ProducerCounts(producer_id=producer_id)), row, partition)
    if producers.keys() - {-1}:
        _note_accepted(lake, key, producers)
    return counts, producers


def merge(producers: Producers, found: Producers) -> None:
    """Add what was `found` on another partition."""
    for producer_id, other in found.items():
        mine = producers.setdefault(producer_id, ProducerCounts(producer_id=producer_id))
        mine.verdicts.update(other.verdicts)
        mine.epochs.update(other.epochs)
        mine.partitions.update(other.partitions)
        mine.fenced_by |= other.fenced_by
        mine.farthest = max(mine.farthest, other.farthest)
        mine.accepted += other.accepted


def _grouped(rows: pa.RecordBatch) -> Iterator[Row]:
    """Rows that are not plain, by producer, epoch, verdict and the expected epoch."""
    is_plain = pc.is_in(rows.column("verdict"), value_set=pa.array(sorted(PLAIN)))
    found = pa.Table.from_batches([rows]).filter(pc.invert(is_plain))
    if found.num_rows:
        gap = pc.subtract(found.column("base_sequence"), found.column("expected_sequence"))
        keys = ["producer_id", "producer_epoch", "verdict", "expected_epoch"]
        groups = found.append_column("gap", gap).group_by(keys)
        yield from groups.aggregate([("gap", "max"), ("verdict", "count")]).to_pylist()


def _note(producer: ProducerCounts, row: Row, partition: str) -> None:
    verdict, count = row["verdict"], row["verdict_count"]
    producer.verdicts[verdict] += count
    producer.epochs[row["producer_epoch"]] += count
    producer.partitions[partition] += count
    if verdict == Verdict.FENCED and row["expected_epoch"] is not None:
        producer.fenced_by.add(row["expected_epoch"])
    if verdict in {Verdict.OUT_OF_ORDER, Verdict.PARKED} and row["gap_max"] is not None:
        producer.farthest = max(producer.farthest, row["gap_max"])


def _note_accepted(lake: ObjectStore, key: str, producers: Producers) -> None:
    """How much of the same producers was fine, to compare with."""
    wanted = np.array(sorted(producers))
    for rows in iter_rows(lake, key, columns=["verdict", "producer_id"]):
        accepted = rows.filter(pc.equal(rows.column("verdict"), pa.scalar(Verdict.ACCEPTED.value)))
        ids = accepted.column("producer_id").to_numpy()
        found, counts = np.unique(ids[np.isin(ids, wanted)], return_counts=True)
        for producer_id, count in zip(found.tolist(), counts.tolist(), strict=True):
            producers[producer_id].accepted += count
