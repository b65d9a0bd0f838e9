"""What a Spark task of `materialise` does: it writes files of committed records, and the accepted log."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.settings import TopicSettings, ValueFormat
from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.log_bytes import marker_batches, place_batches
from spark_jobs.lake.accepted_log import PlannedSegment, segment_path
from spark_jobs.lake.direct_file import DirectFile
from spark_jobs.lake.errors import BrokenRun
from spark_jobs.lake.file_store import translated
from spark_jobs.lake.iceberg.topic_tables import topic_contract
from spark_jobs.lake.manifest import Replay
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import ScratchFile, put_table
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.pipeline.materialise.batch_rows import (
    NONE,
    BatchRows,
    Objects,
    inherited_batches,
    rows_and_objects,
)
from spark_jobs.pipeline.materialise.decoding import DecodedPiece, Decoder, Reading
from spark_jobs.pipeline.materialise.job import (
    FilePlan,
    PartitionChunks,
    PartitionPlan,
    TableFile,
    TaskContext,
    WrittenFiles,
)
from spark_jobs.pipeline.materialise.outcomes import COMMITTED, Outcomes, View, view_of
from spark_jobs.pipeline.materialise.record_table import RecordTable, ValueSchema
from spark_jobs.pipeline.materialise.table_files import TableFiles
from spark_jobs.tables.materialise import UNREADABLE, QuarantineKind, as_written, record_options
from spark_jobs.tables.publish import OWN_TABLES

# What decoding finds besides records: unreadable batches, values that do not fit, segments.

QUARANTINE_SCHEMA = OWN_TABLES["quarantine"].schema

Row = dict[str, Any]


def _batches_of(piece: DecodedPiece, offsets: Sequence[int]) -> list[int]:
    """The batches of `piece` that hold these offsets, which ascend as the piece's do."""
    records = piece.found.rows
    rows = np.searchsorted(records.offset, np.array(offsets, dtype=np.int64))
    found: list[int] = records.batch[rows].tolist()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkOrigin:
    """The origin of pieces; `held` names their file of inherited rows, if any."""

    partition: TopicPartition
    held: str
    objects: Objects


@dataclass(slots=True, kw_only=True)
class Findings:
    """Collects rows of the table `unreadable` and segments, writes rows of `quarantine`, and counts."""

    quarantine: TableFiles
    run_date: date
    unreadable: list[Row] = field(default_factory=list)
    segments: list[OutputFile] = field(default_factory=list)
    decoded: int = 0
    legacy: int = 0
    unfit: int = 0

    def add(self, place: ChunkOrigin, piece: DecodedPiece) -> None:
        """Batches of `piece` that cannot be decoded; those of this run go to quarantine by their verdict."""
        self.decoded += piece.found.count
        self.legacy += piece.found.count if piece.is_legacy else 0
        for problem in piece.problems:
            claimed = max(int(piece.rows.headers.record_count[problem.batch]), 0)
            reason = str(problem.error)
            self.unreadable.append(
                self._unreadable(
                    place,
                    piece,
                    problem.batch,
                    kind=QuarantineKind.CORRUPT,
                    records=claimed,
                    reason=reason,
                )
            )
            if place.held:
                self._put([self._held_batch(place, piece, problem.batch, reason)])

    def add_unfit(
        self,
        place: ChunkOrigin,
        piece: DecodedPiece,
        table: pa.Table,
        reasons: Mapping[int, str],
    ) -> None:
        """Records of `piece`, as rows of `table`, that do not fit for these reasons."""
        self.unfit += len(reasons)
        records = table.take(list(reasons)).to_pylist()
        places = _batches_of(piece, [record["offset"] for record in records])
        for batch, count in sorted(Counter(places).items()):
            text = f"{count} values do not fit the topic's schema"
            kind = QuarantineKind.UNFIT
            self.unreadable.append(
                self._unreadable(place, piece, batch, kind=kind, records=count, reason=text)
            )
        self._put(
            [
                self._unfit_record(place, piece, batch, record, reason)
                for batch, record, reason in zip(places, records, reasons.values(), strict=True)
            ]
        )

    def _put(self, rows: list[Row]) -> None:
        self.quarantine.add(pa.Table.from_pylist(rows, schema=QUARANTINE_SCHEMA))

    @staticmethod
    def _unreadable(
        place: ChunkOrigin,
        piece: DecodedPiece,
        batch: int,
        *,
        kind: QuarantineKind,
        records: int,
        reason: str,
    ) -> Row:
        return {
            "topic": place.partition.topic,
            "partition": place.partition.partition,
            "held": place.held,
            "object_order": int(piece.rows.object_order[batch]),
            "position": int(piece.rows.headers.position[batch]),
            "offset": int(piece.rows.headers.base_offset[batch]),
            "kind": kind.value,
            "records": records,
            "reason": reason,
        }

    def _quarantined(self, place: ChunkOrigin, piece: DecodedPiece, batch: int) -> Row:
        headers = piece.rows.headers
        home = place.objects.places[int(piece.rows.object_order[batch])]
        return {
            "topic": place.partition.topic,
            "partition": place.partition.partition,
            "source": home.source,
            "path": home.path,
            "position": int(headers.position[batch]),
            "producer_id": int(headers.producer_id[batch]),
            "producer_epoch": int(headers.producer_epoch[batch]),
            "run_date": self.run_date,
        }

    def _held_batch(self, place: ChunkOrigin, piece: DecodedPiece, batch: int, reason: str) -> Row:
        headers = piece.rows.headers
        position, size = int(headers.position[batch]), int(headers.size[batch])
        return self._quarantined(place, piece, batch) | {
            "size": size,
            "kind": QuarantineKind.CORRUPT.value,
            "verdict": Verdict.CORRUPT.value,
            "kafka_error": Verdict.CORRUPT.kafka_error.name,
            "reason": reason,
            "offset": int(headers.base_offset[batch]),
            "base_sequence": int(headers.base_sequence[batch]),
            "record_count": int(headers.record_count[batch]),
            "bytes": place.objects.read(int(piece.rows.object_order[batch]), position, size),
        }

    def _unfit_record(
        self, place: ChunkOrigin, piece: DecodedPiece, batch: int, record: Row, reason: str
    ) -> Row:
        return self._quarantined(place, piece, batch) | {
            "size": len(record["value"]),
            "kind": QuarantineKind.UNFIT.value,
            "verdict": Verdict.ACCEPTED.value,
            "kafka_error": KafkaError.NONE.name,
            "reason": reason,
            "offset": record["offset"],
            "base_sequence": record["sequence"],
            "record_count": 1,
            "bytes": record["value"],
        }


# A segment of the accepted log: batches as they were sent, with offset and leader epoch (facts §1.3).


class SegmentFile(ScratchFile):
    """The `.log` file of `segment`; nothing is visible in the lake before `finish`."""

    def __init__(self, lake: ObjectStore, partition: TopicPartition, segment: PlannedSegment) -> None:
        super().__init__(lake, ".log")
        self._segment, self._key = segment, segment_path(partition, segment)
        with translated(str(self._path)):
            self._file = DirectFile(self._path, cached=self._is_read_again)

    def append(self, rows: BatchRows, reading: Reading | None) -> None:
        """The next batches: those of `reading`, and between them markers, which are in no object."""
        ends, is_marker = np.cumsum(rows.headers.size), rows.is_given_marker
        at, target = ends - rows.headers.size, self._file.room(int(ends[-1]))
        if reading is not None:
            buffer, found = reading.joined()
            place_batches(target, at[~is_marker], buffer, found.headers, self._segment.leader_epoch)
        if is_marker.any():
            markers = rows.take(is_marker).headers
            made = markers._replace(position=np.cumsum(markers.size) - markers.size)
            source = marker_batches(markers._asdict())
            place_batches(target, at[is_marker], source, made, self._segment.leader_epoch)
        with translated(str(self._path)):
            self._file.push()

    def finish(self, folder: str) -> OutputFile:
        """Put the segment below the key `folder`."""
        self._close()
        if self._file.size != self._segment.size:
            raise BrokenRun(f"{self._key}: expected {self._segment.size} bytes, found {self._file.size}")
        self._store.adopt(self._path, f"{folder}/{self._key}", durable=False)
        return OutputFile(path=self._key, size=self._file.size, digest=self._segment.digest)

    def _close(self) -> None:
        with translated(str(self._path)):
            self._file.close()


def logged(decoder: Decoder, segment: SegmentFile, rows: BatchRows) -> Iterator[Reading]:
    """The bytes of `rows`, which are all accepted, once they are in the segment."""
    data = np.flatnonzero(~rows.is_given_marker)
    done = 0
    for reading in map(decoder.check, decoder.readings(rows.take(data))):
        stop = int(data[reading.stop]) if reading.stop < data.size else rows.rows
        segment.append(rows.take(slice(done, stop)), reading)
        yield reading
        done = stop
    if done < rows.rows:
        segment.append(rows.take(slice(done, rows.rows)), None)


# The task.


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeTask:
    """Some files for one worker."""

    plans: tuple[FilePlan, ...]
    context: TaskContext


def decode_files(task: DecodeTask) -> tuple[WrittenFiles, ...]:
    """Writes the planned files; the same task again writes the same bytes."""
    return tuple(
        write_records(task.context, plan, partial(_planned, task.context, plan)) for plan in task.plans
    )


def write_records(
    context: TaskContext, plan: FilePlan, parts: Callable[[Findings], Iterator[pa.Table]]
) -> WrittenFiles:
    """Writes the files of `plan`: the records of all `parts`, and the findings."""
    schema = as_written(topic_contract(context.settings, plan.topic, plan.folder).schema)
    with (
        TableFiles(context, plan.path, schema, record_options(schema)) as output,
        TableFiles(context, plan.quarantine_path, QUARANTINE_SCHEMA) as quarantine,
    ):
        findings = Findings(quarantine=quarantine, run_date=context.run_date)
        for part in parts(findings):
            output.add(part if part.schema == schema else part.select(schema.names).cast(schema))
        files, quarantined = output.finish(), quarantine.finish()
    return WrittenFiles(
        plan=plan,
        files=files,
        quarantine=quarantined,
        unreadable=_put_unreadable(context, plan, findings),
        unreadable_batches=sum(row["kind"] == QuarantineKind.CORRUPT for row in findings.unreadable),
        unreadable_records=sum(row["records"] for row in findings.unreadable) - findings.unfit,
        unfit=findings.unfit,
        hidden=findings.decoded - findings.unfit - sum(file.rows for file in files),
        legacy=findings.legacy,
        segments=tuple(findings.segments),
    )


def _planned(context: TaskContext, plan: FilePlan, findings: Findings) -> Iterator[pa.Table]:
    for share in plan.shares:
        view = view_of(context.lake, share.plan)
        yield from _FilePartition(context=context, plan=share.plan, view=view, findings=findings).records(
            share
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _FilePartition:
    """One partition's share of a file."""

    context: TaskContext
    plan: PartitionPlan
    view: View
    findings: Findings

    def records(self, share: PartitionChunks) -> Iterator[pa.Table]:
        """The rows of the table, in order of offsets."""
        context, partition = self.context, self.plan.partition
        records = RecordTable(partition=partition.partition, view=self.view, run_date=context.run_date)
        values = value_schema(context.settings.topic(partition.topic))
        for chunk in share.chunks:
            objects, parts = rows_and_objects(context.lake, context.settings, self.plan, chunk)
            place = ChunkOrigin(partition=partition, held=chunk.held, objects=objects)
            decoder = Decoder(read=objects.read, name=objects.name, limits=context.settings.limits.protocol)
            for piece in self._pieces(decoder, chunk.segment, parts):
                self.findings.add(place, piece)
                table = records.rows_of(piece)
                yield table if values is None else fitting(table, values, place, piece, self.findings)

    def _pieces(
        self, decoder: Decoder, segment: PlannedSegment | None, parts: Iterator[BatchRows]
    ) -> Iterator[DecodedPiece]:
        """The records that are shown; a segment of the accepted log is written on the way."""
        if segment is None:
            for rows in parts:
                yield from decoder.decode(rows.take(self.view.shows(rows)))
            return
        with SegmentFile(self.context.lake, self.plan.partition, segment) as file:
            for rows in parts:
                for reading in logged(decoder, file, rows.take(rows.is_accepted)):
                    yield from decoder.pieces(reading.shown(self.view.shows))
            self.findings.segments.append(file.finish(self.context.folder))


def value_schema(topic: TopicSettings) -> ValueSchema | None:
    """The schema of the topic's values, if it has one."""
    if topic.value is not ValueFormat.JSON:
        return None
    return ValueSchema(fields=topic.fields, required=frozenset(topic.required))


def fitting(
    table: pa.Table, values: ValueSchema, place: ChunkOrigin, piece: DecodedPiece, findings: Findings
) -> pa.Table:
    """The rows whose values fit, with a column per field; the others go to quarantine."""
    fitted = values.fit(table.column("value").to_pylist())
    if fitted.unfit:
        findings.add_unfit(place, piece, table, fitted.unfit)
    for name, column in fitted.columns.items():
        table = table.append_column(name, column)
    if not fitted.unfit:
        return table
    return table.filter(pa.array([row not in fitted.unfit for row in range(table.num_rows)]))


def _put_unreadable(context: TaskContext, plan: FilePlan, findings: Findings) -> TableFile | None:
    """The table of batches with records that cannot be published, if there are any."""
    if not findings.unreadable:
        return None
    table = UNREADABLE.cast(pa.Table.from_pylist(findings.unreadable, schema=UNREADABLE.schema))
    output = put_table(context.lake, context.folder, UNREADABLE.file_of(plan=plan.name), table)
    return TableFile(output=output, rows=table.num_rows)


# Replays: records that an earlier run admitted but could not publish.

ALL_OFFSETS = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayTask:
    """All that is decoded again of one topic."""

    topic: str
    replays: tuple[Replay, ...]
    context: TaskContext


def decode_replayed(task: ReplayTask) -> WrittenFiles:
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
    place = ChunkOrigin(partition=partition, held=replay.inherited, objects=objects)
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
