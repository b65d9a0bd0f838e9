"""The outcomes of the transactions of one partition, by first offset, and what the run publishes of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.lake.accepted_log import PlannedSegment
from spark_jobs.lake.errors import BrokenRun
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.pipeline.materialise.batch_rows import NONE, BatchRows, held_rows, rows_of_run
from spark_jobs.pipeline.materialise.job import PartitionPlan, RowChunk

COMMITTED, ABORTED = "committed", "aborted"
"""Outcomes that nothing can change any more."""


def _no_offsets() -> npt.NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


def _no_names() -> "pa.Array[Any]":
    return pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Transactions by ascending first offset on the partition; `transactional_id` is null where unknown."""

    first_offset: npt.NDArray[np.int64] = field(default_factory=_no_offsets)
    outcome: "pa.Array[Any]" = field(default_factory=_no_names)
    transactional_id: "pa.Array[Any]" = field(default_factory=_no_names)

    def are(self, outcome: str) -> npt.NDArray[np.bool_]:
        """Which transactions ended like that."""
        return np.asarray(self.outcome.to_numpy(zero_copy_only=False) == outcome, dtype=np.bool_)

    def index_of(self, txn_first_offset: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The transaction of each batch, `NONE` for a batch outside of any."""
        found = np.searchsorted(self.first_offset, txn_first_offset)
        known = found < self.first_offset.size
        known[known] = self.first_offset[found[known]] == txn_first_offset[known]
        missing = txn_first_offset[~known & (txn_first_offset != NONE)]
        if missing.size:
            raise BrokenRun(f"the transaction that began at offset {missing[0]} has no outcome")
        return np.where(txn_first_offset == NONE, NONE, found)


def names_of(names: "pa.Array[Any]", indices: npt.NDArray[np.int64]) -> "pa.Array[Any]":
    """The names at `indices`, null at `NONE`."""
    taken: pa.Int64Array = pa.array(indices, pa.int64(), mask=indices == NONE)
    return names.take(taken)


@dataclass(frozen=True, kw_only=True)
class View:
    """What a run publishes of one partition: committed records from `first_offset` to before `end_offset`.

    `end_offset` is where a batch ends. `late` are first offsets of transactions that an earlier run took
    for aborted: they are published whole, though they are before `first_offset`.
    """

    first_offset: int
    end_offset: int
    outcomes: Outcomes
    late: tuple[int, ...] = ()

    def first_offsets(self, rows: BatchRows) -> npt.NDArray[np.int64]:
        """For each batch the first offset that is published of it."""
        is_late = np.isin(rows.txn_first_offset, np.array(self.late, dtype=np.int64))
        return np.where(is_late, 0, self.first_offset)

    def shows(self, rows: BatchRows) -> npt.NDArray[np.bool_]:
        """Which batches hold records to publish."""
        in_range = (rows.last_offset >= self.first_offsets(rows)) & (
            rows.headers.base_offset < self.end_offset
        )
        chosen = rows.is_accepted & rows.is_data & in_range
        indices = self.outcomes.index_of(np.where(chosen, rows.txn_first_offset, NONE))
        committed: npt.NDArray[np.bool_] = self._is_committed[indices]
        return chosen & committed

    @cached_property
    def _is_committed(self) -> npt.NDArray[np.bool_]:
        """Of each transaction, and at `NONE`, the last place, of what needs none."""
        return np.append(self.outcomes.are(COMMITTED), True)


def view_of(lake: ObjectStore, plan: PartitionPlan) -> View:
    """What the run publishes of the partition."""
    outcomes = _read_outcomes(lake, plan.outcomes) if plan.outcomes else Outcomes()
    return View(first_offset=plan.first_offset, end_offset=plan.end_offset, outcomes=outcomes, late=plan.late)


def _read_outcomes(lake: ObjectStore, key: str) -> Outcomes:
    table = read_table(lake, key)
    return Outcomes(
        first_offset=np.asarray(table.column("first_offset")),
        outcome=table.column("outcome").combine_chunks(),
        transactional_id=table.column("transactional_id").combine_chunks(),
    )


# A survey: how much of a partition is published, in chunks for the plan of files.

CHUNK_BYTES = 8 * 2**20
"""Committed bytes of one chunk: what planning files is exact to."""
NO_OBJECT = 2**31 - 1
"""Beyond every object's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyTask:
    """Some partitions for one worker."""

    plans: tuple[PartitionPlan, ...]
    lake: ObjectStore


def survey_partitions(task: SurveyTask) -> tuple[tuple[RowChunk, ...], ...]:
    """The chunks of each partition by ascending offset; none where there is nothing to publish."""
    return tuple(tuple(_survey(task.lake, plan)) for plan in task.plans)


def _survey(lake: ObjectStore, plan: PartitionPlan) -> Iterator[RowChunk]:
    view = view_of(lake, plan)
    for held in plan.held:
        yield from chunks_of(held_rows(lake, held), view, first_row=0, held=held)
    if plan.segments:
        yield from (_segment_chunk(lake, plan, view, segment) for segment in plan.segments)
        return
    first_row = 0
    for rows in rows_of_run(lake, plan):
        yield from chunks_of(rows, view, first_row=first_row)
        first_row += rows.rows


def _segment_chunk(lake: ObjectStore, plan: PartitionPlan, view: View, segment: PlannedSegment) -> RowChunk:
    """A segment of the accepted log is written whole, also if only a part of it is published."""
    chunk = RowChunk(
        held="",
        first_row=segment.first_row,
        stop_row=segment.stop_row,
        batches=0,
        records=0,
        bytes=0,
        first_object=NO_OBJECT,
        last_object=-NO_OBJECT,
        segment=segment,
    )
    for rows in rows_of_run(lake, plan, segment.first_row, segment.stop_row):
        shown = np.flatnonzero(view.shows(rows))
        logged = rows.object_order[rows.is_accepted & ~rows.is_given_marker]
        chunk = chunk.join(
            replace(
                chunk,
                batches=shown.size,
                records=int(np.maximum(rows.headers.record_count[shown], 0).sum()),
                bytes=int(rows.headers.size[shown].sum()),
                first_object=int(logged.min(initial=NO_OBJECT)),
                last_object=int(logged.max(initial=-NO_OBJECT)),
            )
        )
    return chunk


def chunks_of(rows: BatchRows, view: View, *, first_row: int, held: str = "") -> Iterator[RowChunk]:
    """`rows` cut where their shown bytes fill a chunk; rows that are not shown come along or fall between."""
    shown = np.flatnonzero(view.shows(rows))
    filled = np.cumsum(rows.headers.size[shown]) // CHUNK_BYTES
    for part in np.split(shown, np.flatnonzero(np.diff(filled)) + 1):
        if part.size:
            objects = rows.object_order[part]
            yield RowChunk(
                held=held,
                first_row=first_row + int(part[0]),
                stop_row=first_row + int(part[-1]) + 1,
                batches=part.size,
                records=int(np.maximum(rows.headers.record_count[part], 0).sum()),
                bytes=int(rows.headers.size[part].sum()),
                first_object=int(objects.min()),
                last_object=int(objects.max()),
            )
