"""Explains batches and gaps of a partition: origin, verdict and reason, from the tables of runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.flow import Step
from spark_jobs.kafka.errors import OnceoverError
from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG
from spark_jobs.kafka.producers.verdict import Verdict, batch_name
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.index_rows import chosen
from spark_jobs.lake.layout import run_key, step_key
from spark_jobs.lake.manifest import read_run_manifest
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_rows, read_table
from spark_jobs.lake.run_folder import EXPIRED
from spark_jobs.tables.admit import ADMITTED_PARTITIONS, GAPS, MARKER_OBJECT, GapStatus
from spark_jobs.tables.states import INHERITED_OBJECTS


class NothingKnown(OnceoverError):
    """No run has the requested batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Selects batches of one partition: all, those of a producer, or the one that holds an offset.

    The batches are those of all final runs, of one run, or of the current run of a date.
    """

    partition: TopicPartition
    producer_id: int | None = None
    offset: int | None = None
    run_id: str | None = None
    day: date | None = None

    def asks_for(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The selected ones of `rows`."""
        if self.producer_id is not None:
            rows = rows.filter(pc.equal(rows.column("producer_id"), pa.scalar(self.producer_id)))
        if self.offset is not None:
            has_offset = rows.column("offset").is_valid().to_numpy(zero_copy_only=False)
            first = rows.column("offset").fill_null(0).to_numpy()
            last = first + rows.column("last_offset_delta").to_numpy()
            rows = chosen(rows, has_offset & (first <= self.offset) & (last >= self.offset))
        return rows


def runs_of(question: Question, chain: Chain) -> tuple[str, ...]:
    """The runs that may have selected batches, by date."""
    if question.run_id is not None:
        return (question.run_id,)
    if question.day is not None:
        entry = chain.run_of(question.day)
        if entry is None:
            raise NothingKnown(f"{question.day}: no run of this date is final")
        return (entry.run_id,)
    return tuple(entry.run_id for entry in chain.current.values())


def answers(lake: ObjectStore, question: Question, run_id: str) -> Iterator[pa.RecordBatch]:
    """The selected rows of the table `batches` of that run."""
    file = _batches_file(lake, question.partition, run_id)
    if file is not None and lake.stat(run_key(run_id, EXPIRED)) is not None:
        if question.run_id is None and question.day is None:
            return  # of all runs, only those that have not expired
        raise NothingKnown(f"{run_id}: its verdicts have expired; the table `batches` still has them")
    if file is not None:
        for rows in iter_rows(lake, step_key(run_id, Step.ADMIT, file)):
            found = question.asks_for(rows)
            if found.num_rows:
                yield found


def gaps_of(lake: ObjectStore, question: Question, run_id: str) -> list[dict[str, Any]]:
    """The selected rows of the table `gaps`; none if a producer is selected."""
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
        raise NothingKnown(f"{run_id}: there is no such run, or its step {Step.ADMIT} is not done yet")
    for row in read_table(lake, key).select(["topic", "partition", "batches"]).to_pylist():
        if TopicPartition(row["topic"], row["partition"]) == partition:
            return str(row["batches"])
    return None


GIVEN = "the coordinator's log"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedBatch:
    """One batch; `place` is its object and byte position, `row` the table's row."""

    run_id: str
    place: str
    row: dict[str, Any]

    @property
    def what(self) -> str:
        """The batch as its header describes it."""
        return f"{self.row['size']} bytes" if self.row["problem"] is not None else batch_name(self.row)

    @property
    def sentence(self) -> str:
        """The verdict on the batch, and the reason."""
        row = self.row
        if row["verdict"] == Verdict.ACCEPTED:
            taken = f"{self.what}: taken at {_offsets(row)}{self._transaction}"
            return f"{taken}; {row['reason']}" if row["reason"] else taken
        refused = f"{self.what}: {row['verdict']}"
        error = "" if row["kafka_error"] == "NONE" else f", a broker answers {row['kafka_error']}"
        return f"{refused}{error}: {row['reason']}"

    @property
    def _transaction(self) -> str:
        first = self.row["txn_first_offset"]
        if first is None:
            return ""
        is_control = self.row["attributes"] & CONTROL_FLAG
        return f", {'ends' if is_control else 'in'} the transaction that begins at offset {first}"


GAP_SENTENCES = {
    GapStatus.OPEN: "in no copy since the run of {found_on}; {held_batches} batches are held behind it",
    GapStatus.FILLED: "missing since the run of {found_on}, taken by the run of {filled_on}",
    GapStatus.PUBLISHED_PAST: "in no copy; the run of {found_on} published past them",
    GapStatus.DELETED: "deleted by the broker before any copy had them; the run of {found_on} continued "
    "after them",
    GapStatus.LATE: (
        "the run of {found_on} published past them; {after} has them, a backfill of that date takes them"
    ),
    GapStatus.TRUNCATED: "missing since the run of {found_on}; the log ends before them now",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedGap:
    """Offsets that are or were missing, as a run reported them; `row` has main fields of a batch's row."""

    run_id: str
    gap: dict[str, Any]

    @property
    def what(self) -> str:
        return f"offsets {self.gap['first_offset']} to {self.gap['last_offset']}"

    @property
    def place(self) -> str:
        return str(self.gap["after"] or "")

    @property
    def sentence(self) -> str:
        """The status of the missing offsets."""
        return f"{self.what}: {self.row['reason']}"

    @property
    def row(self) -> dict[str, Any]:
        status = GapStatus(self.gap["status"])
        return {
            "verdict": f"gap {status.value}",
            "offset": self.gap["first_offset"],
            "reason": GAP_SENTENCES[status].format(**self.gap),
            **{name: str(value) if isinstance(value, date) else value for name, value in self.gap.items()},
        }


def _offsets(row: dict[str, Any]) -> str:
    first, last = row["offset"], row["offset"] + row["last_offset_delta"]
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def explain(lake: ObjectStore, question: Question, run_id: str) -> Iterator[ExplainedBatch | ExplainedGap]:
    """An answer for every selected batch and gap of the run."""
    yield from (ExplainedGap(run_id=run_id, gap=gap) for gap in gaps_of(lake, question, run_id))
    paths: dict[int, str] | None = None
    for rows in answers(lake, question, run_id):
        paths = object_paths(lake, run_id) if paths is None else paths
        for row in rows.to_pylist():
            yield ExplainedBatch(run_id=run_id, place=place_of(row, paths), row=row)


def place_of(row: dict[str, Any], paths: dict[int, str]) -> str:
    """The batch's position; `paths` are the run's objects by their order."""
    if row["object_order"] == MARKER_OBJECT:
        return GIVEN
    return f"{paths[row['object_order']]} at byte {row['position']}"


def object_paths(lake: ObjectStore, run_id: str) -> dict[int, str]:
    """Source and path of every object of the run, also of inherited ones."""
    inherited = read_table(lake, step_key(run_id, Step.REBUILD, INHERITED_OBJECTS.file)).to_pylist()
    return {
        **{row["object_order"]: f"{row['source']}/{row['path']}" for row in inherited},
        **{entry.order: f"{entry.source}/{entry.path}" for entry in read_run_manifest(lake, run_id).entries},
    }
