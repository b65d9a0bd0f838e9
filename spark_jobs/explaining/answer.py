"""One batch as a person wants to hear of it: where it came from, what became of it, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from spark_jobs.explaining.question import Question, answers
from spark_jobs.flow import Step
from spark_jobs.protocol.record_batch import CONTROL_FLAG, NO_SEQUENCE, TRANSACTIONAL_FLAG
from spark_jobs.protocol.sequence import increment_sequence
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.storage.layout import step_key
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import read_table
from spark_jobs.storage.staged import read_run_manifest
from spark_jobs.tables.batches import MARKER_OBJECT

CARRIED = "carried_objects.parquet"
GIVEN = "the coordinator's log"
CONTROL_NAMES = {0: "abort marker", 1: "commit marker"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One batch; `place` is the object and byte that it stands at, `row` the table's row."""

    run_id: str
    place: str
    row: dict[str, Any]

    @property
    def what(self) -> str:
        """What came, as the header says it."""
        row = self.row
        if row["problem"] is not None:
            return f"{row['size']} bytes"
        if row["attributes"] & CONTROL_FLAG:
            name = CONTROL_NAMES.get(row["control_type"], "control batch")
            return f"{name} of producer {row['producer_id']}, epoch {row['producer_epoch']}"
        kind = "transactional batch" if row["attributes"] & TRANSACTIONAL_FLAG else "batch"
        if row["producer_id"] < 0:
            return f"{kind} without producer"
        return f"{kind} of producer {row['producer_id']}, epoch {row['producer_epoch']}, {self._sequences}"

    @property
    def _sequences(self) -> str:
        first = self.row["base_sequence"]
        if first == NO_SEQUENCE:
            return "no sequence"
        last = increment_sequence(first, self.row["last_offset_delta"])
        return f"sequence {first}" if first == last else f"sequences {first} to {last}"

    @property
    def sentence(self) -> str:
        """What became of it, and why."""
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


def _offsets(row: dict[str, Any]) -> str:
    first, last = row["offset"], row["offset"] + row["last_offset_delta"]
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def explain(lake: ObjectStore, question: Question, run_id: str) -> Iterator[Answer]:
    """An answer for every batch of the run that the question is about."""
    paths: dict[int, str] | None = None
    for rows in answers(lake, question, run_id):
        paths = object_paths(lake, run_id) if paths is None else paths
        for row in rows.to_pylist():
            yield Answer(run_id=run_id, place=place_of(row, paths), row=row)


def place_of(row: dict[str, Any], paths: dict[int, str]) -> str:
    """Where the batch stands; `paths` are the run's objects by their order."""
    if row["object_order"] == MARKER_OBJECT:
        return GIVEN
    return f"{paths[row['object_order']]} at byte {row['position']}"


def object_paths(lake: ObjectStore, run_id: str) -> dict[int, str]:
    """Source and path of every object of the run, also those that it took over from earlier nights."""
    carried = read_table(lake, step_key(run_id, Step.REBUILD, CARRIED)).to_pylist()
    return {
        **{row["object_order"]: f"{row['source']}/{row['path']}" for row in carried},
        **{entry.order: f"{entry.source}/{entry.path}" for entry in read_run_manifest(lake, run_id).entries},
    }
