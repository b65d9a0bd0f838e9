"""What runs in a Spark task of `materialise`: batches in, files of committed records and the log out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from spark_jobs.config.settings import TopicSettings
from spark_jobs.config.values import ValueFormat
from spark_jobs.materialising.decoding import Decoder, Piece
from spark_jobs.materialising.findings import QUARANTINE_SCHEMA, Findings, Place
from spark_jobs.materialising.json_values import ValueSchema
from spark_jobs.materialising.outcome_files import view_of
from spark_jobs.materialising.outcomes import View
from spark_jobs.materialising.record_table import RecordTable, as_written, record_options
from spark_jobs.materialising.rows import BatchRows
from spark_jobs.materialising.segment_file import SegmentFile, logged
from spark_jobs.materialising.sources import rows_and_objects
from spark_jobs.materialising.summaries import FilePlan, PartitionPlan, Share, TableFile, Workshop, Written
from spark_jobs.materialising.table_files import TableFiles
from spark_jobs.storage.parquet_file import put_table
from spark_jobs.storage.planned_segments import PlannedSegment
from spark_jobs.storage.topic_contract import topic_contract
from spark_jobs.tables.materialise import UNREADABLE, QuarantineKind


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeTask:
    """Some files for one worker."""

    plans: tuple[FilePlan, ...]
    workshop: Workshop


def decode_files(task: DecodeTask) -> tuple[Written, ...]:
    """Writes the planned files; the same task again writes the same bytes."""
    return tuple(
        write_records(task.workshop, plan, partial(_planned, task.workshop, plan)) for plan in task.plans
    )


def write_records(
    workshop: Workshop, plan: FilePlan, parts: Callable[[Findings], Iterator[pa.Table]]
) -> Written:
    """Writes the files of `plan`: the records of all `parts`, and beside them what it finds on its way."""
    schema = as_written(topic_contract(workshop.settings, plan.topic, plan.folder).schema)
    with (
        TableFiles(workshop, plan.path, schema, record_options(schema)) as output,
        TableFiles(workshop, plan.quarantine_path, QUARANTINE_SCHEMA) as quarantine,
    ):
        findings = Findings(quarantine=quarantine, run_date=workshop.run_date)
        for part in parts(findings):
            output.add(part if part.schema == schema else part.select(schema.names).cast(schema))
        files, quarantined = output.finish(), quarantine.finish()
    return Written(
        plan=plan,
        files=files,
        quarantine=quarantined,
        unreadable=_put_unreadable(workshop, plan, findings),
        unreadable_batches=sum(row["kind"] == QuarantineKind.CORRUPT for row in findings.unreadable),
        unreadable_records=sum(row["records"] for row in findings.unreadable) - findings.unfit,
        unfit=findings.unfit,
        hidden=findings.decoded - findings.unfit - sum(file.rows for file in files),
        legacy=findings.legacy,
        segments=tuple(findings.segments),
    )


def _planned(workshop: Workshop, plan: FilePlan, findings: Findings) -> Iterator[pa.Table]:
    for share in plan.shares:
        view = view_of(workshop.lake, share.plan)
        yield from _Partition(workshop=workshop, plan=share.plan, view=view, findings=findings).records(share)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Partition:
    """One partition's share of a file."""

    workshop: Workshop
    plan: PartitionPlan
    view: View
    findings: Findings

    def records(self, share: Share) -> Iterator[pa.Table]:
        """The rows of the table, in order of offsets."""
        workshop, partition = self.workshop, self.plan.partition
        records = RecordTable(partition=partition.partition, view=self.view, run_date=workshop.run_date)
        values = value_schema(workshop.settings.topic(partition.topic))
        for chunk in share.chunks:
            objects, parts = rows_and_objects(workshop.lake, workshop.settings, self.plan, chunk)
            place = Place(partition=partition, held=chunk.held, objects=objects)
            decoder = Decoder(read=objects.read, name=objects.name, limits=workshop.settings.limits.protocol)
            for piece in self._pieces(decoder, chunk.segment, parts):
                self.findings.add(place, piece)
                table = records.rows_of(piece)
                yield table if values is None else fitting(table, values, place, piece, self.findings)

    def _pieces(
        self, decoder: Decoder, segment: PlannedSegment | None, parts: Iterator[BatchRows]
    ) -> Iterator[Piece]:
        """The records that are shown; a segment of the accepted log is written on the way."""
        if segment is None:
            for rows in parts:
                yield from decoder.decode(rows.take(self.view.shows(rows)))
            return
        with SegmentFile(self.workshop.lake, self.plan.partition, segment) as file:
            for rows in parts:
                for reading in logged(decoder, file, rows.take(rows.is_accepted)):
                    yield from decoder.pieces(reading.shown(self.view.shows))
            self.findings.segments.append(file.finish(self.workshop.folder))


def value_schema(topic: TopicSettings) -> ValueSchema | None:
    """What the topic's values have to be like, if anything."""
    if topic.value is not ValueFormat.JSON:
        return None
    return ValueSchema(fields=topic.fields, required=frozenset(topic.required))


def fitting(table: pa.Table, values: ValueSchema, place: Place, piece: Piece, findings: Findings) -> pa.Table:
    """The rows whose values fit, with a column per field; the others go to quarantine."""
    fitted = values.fit(table.column("value").to_pylist())
    if fitted.unfit:
        findings.add_unfit(place, piece, table, fitted.unfit)
    for name, column in fitted.columns.items():
        table = table.append_column(name, column)
    if not fitted.unfit:
        return table
    return table.filter(pa.array([row not in fitted.unfit for row in range(table.num_rows)]))


def _put_unreadable(workshop: Workshop, plan: FilePlan, findings: Findings) -> TableFile | None:
    """The table of batches with records that cannot be published, if there are any."""
    if not findings.unreadable:
        return None
    table = UNREADABLE.cast(pa.Table.from_pylist(findings.unreadable, schema=UNREADABLE.schema))
    output = put_table(workshop.lake, workshop.folder, UNREADABLE.file_of(plan=plan.name), table)
    return TableFile(output=output, rows=table.num_rows)
