"""What a Spark task surveys: how much of a partition is published, in chunks for the plan of files."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from spark_jobs.lake.accepted_log import PlannedSegment
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.pipeline.materialise.batch_rows import BatchRows, held_rows, rows_of_run
from spark_jobs.pipeline.materialise.job import PartitionPlan, RowChunk
from spark_jobs.pipeline.materialise.outcomes import View, view_of

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
