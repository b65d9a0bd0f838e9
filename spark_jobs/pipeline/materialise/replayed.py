"""What a Spark task replays: records that an earlier run admitted but could not publish."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.manifest import Replay
from spark_jobs.pipeline.materialise.batch_rows import NONE, BatchRows, inherited_batches
from spark_jobs.pipeline.materialise.decoding import Decoder
from spark_jobs.pipeline.materialise.job import FilePlan, TaskContext, Written
from spark_jobs.pipeline.materialise.outcomes import COMMITTED, Outcomes, View
from spark_jobs.pipeline.materialise.record_table import RecordTable
from spark_jobs.pipeline.materialise.worker import Findings, Place, fitting, value_schema, write_records

ALL_OFFSETS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask:
    """All that is decoded again of one topic."""

    topic: str
    replays: tuple[Replay, ...]
    context: TaskContext


def decode_replayed(task: ReplayTask) -> Written:
    """Writes the topic's files of replayed records; the same task again writes the same bytes."""
    plan = FilePlan(topic=task.topic, number=0, replayed=True)
    written = write_records(task.context, plan, partial(_chosen, task))
    # Unselected records do not count as hidden, and the first run has counted older formats.
    return replace(written, hidden=0, legacy=0)


def _chosen(task: ReplayTask, findings: Findings) -> Iterator[pa.Table]:
    for replay in merged(task.replays):
        yield from _records(task.context, replay, findings)


def merged(replays: Sequence[Replay]) -> Iterator[Replay]:
    """One for each batch by partition and offset, with the offsets of all decisions about it."""
    in_order = sorted(replays, key=lambda each: (each.partition, each.arrival, each.inherited))
    for _, same in groupby(in_order, key=lambda each: (each.partition, each.inherited)):
        first, *others = same
        offsets = sorted({*first.offsets, *(offset for each in others for offset in each.offsets)})
        records = first.records + sum(each.records for each in others)
        yield replace(first, offsets=tuple(offsets), records=records)


def _records(context: TaskContext, replay: Replay, findings: Findings) -> Iterator[pa.Table]:
    """The wanted records of one batch."""
    partition = TopicPartition(replay.topic, replay.partition)
    objects, rows = inherited_batches(context.lake, context.settings, partition, replay.inherited)
    place = Place(partition=partition, held=replay.inherited, objects=objects)
    records = RecordTable(partition=partition.partition, view=_view(replay, rows), run_date=context.run_date)
    values = value_schema(context.settings.topic(replay.topic))
    decoder = Decoder(read=objects.read, name=objects.name, limits=context.settings.limits.protocol)
    for piece in decoder.decode(rows):
        findings.add(place, piece)
        if piece.problems:  # the selected records are missing, not all that the header claims
            findings.unreadable[-1]["records"] = replay.records
        table = _wanted(records.rows_of(piece), replay)
        yield table if values is None else fitting(table, values, place, piece, findings)


def _wanted(table: pa.Table, replay: Replay) -> pa.Table:
    if not replay.offsets:
        return table
    return table.filter(pc.is_in(table.column("offset"), pa.array(replay.offsets, pa.int64())))


def _view(replay: Replay, rows: BatchRows) -> View:
    """All of it, by its transaction, which has committed: nothing else is ever decoded."""
    first_offsets = rows.txn_first_offset[rows.txn_first_offset != NONE]
    outcomes = Outcomes(
        first_offset=first_offsets,
        outcome=pa.array([COMMITTED] * first_offsets.size, pa.string()),
        transactional_id=pa.array([replay.transactional_id] * first_offsets.size, pa.string()),
    )
    return View(first_offset=0, end_offset=ALL_OFFSETS, outcomes=outcomes)
