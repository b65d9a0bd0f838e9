"""Which batches are asked about, and which runs may hold them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.flow import Step
from spark_jobs.protocol.errors import OnceoverError
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.chain import Chain
from spark_jobs.storage.index_rows import chosen
from spark_jobs.storage.layout import run_key, step_key
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import iter_rows, read_table
from spark_jobs.storage.run_folder import EXPIRED
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, GAPS


class NothingKnown(OnceoverError):
    """No run has what was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Batches of one partition: all, those of a producer, or the one that holds an offset.

    Of all final runs, of one run, or of the current run of a date.
    """

    partition: TopicPartition
    producer_id: int | None = None
    offset: int | None = None
    run_id: str | None = None
    day: date | None = None

    def asks_for(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Those of the `rows` that the question is about."""
        if self.producer_id is not None:
            rows = rows.filter(pc.equal(rows.column("producer_id"), pa.scalar(self.producer_id)))
        if self.offset is not None:
            has_offset = rows.column("offset").is_valid().to_numpy(zero_copy_only=False)
            first = rows.column("offset").fill_null(0).to_numpy()
            last = first + rows.column("last_offset_delta").to_numpy()
            rows = chosen(rows, has_offset & (first <= self.offset) & (last >= self.offset))
        return rows


def runs_of(question: Question, chain: Chain) -> tuple[str, ...]:
    """The runs to look into, by date."""
    if question.run_id is not None:
        return (question.run_id,)
    if question.day is not None:
        entry = chain.run_of(question.day)
        if entry is None:
            raise NothingKnown(f"{question.day}: no run of this date is final")
        return (entry.run_id,)
    return tuple(entry.run_id for entry in chain.current.values())


def answers(lake: ObjectStore, question: Question, run_id: str) -> Iterator[pa.RecordBatch]:
    """The rows of the table `batches` that the question is about, as that run decided them."""
    file = _batches_file(lake, question.partition, run_id)
    if file is not None and lake.stat(run_key(run_id, EXPIRED)) is not None:
        if question.run_id is None and question.day is None:
            return  # of all runs, those that are still there
        raise NothingKnown(f"{run_id}: its verdicts have expired; the table `batches` still has them")
    if file is not None:
        for rows in iter_rows(lake, step_key(run_id, Step.ADMIT, file)):
            found = question.asks_for(rows)
            if found.num_rows:
                yield found


def gaps_of(lake: ObjectStore, question: Question, run_id: str) -> list[dict[str, Any]]:
    """The rows of the table `gaps` that the question is about; a question about a producer is about none."""
    key = step_key(run_id, Step.ADMIT, GAPS.file)
    if question.producer_id is not None or lake.stat(key) is None:
        return []
    rows: list[dict[str, Any]] = read_table(lake, key).to_pylist()
    own = [row for row in rows if (row["topic"], row["partition"]) == question.partition]
    return [
        row
        for row in own
        if question.offset is None or row["first_offset"] <= question.offset <= row["last_offset"]
    ]


def _batches_file(lake: ObjectStore, partition: TopicPartition, run_id: str) -> str | None:
    key = step_key(run_id, Step.ADMIT, ADMITTED_PARTITIONS.file)
    if lake.stat(key) is None:
        raise NothingKnown(f"{run_id}: there is no such run, or it has not come to {Step.ADMIT} yet")
    for row in read_table(lake, key).select(["topic", "partition", "batches"]).to_pylist():
        if TopicPartition(row["topic"], row["partition"]) == partition:
            return str(row["batches"])
    return None
