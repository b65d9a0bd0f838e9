"""What runs in a Spark task of `materialise`: committed batches in, files of records out."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from spark_jobs.materialising.decoding import Decoder, Piece
from spark_jobs.materialising.outcome_files import view_of
from spark_jobs.materialising.record_table import RECORD_OPTIONS, RecordTable
from spark_jobs.materialising.sources import rows_and_objects
from spark_jobs.materialising.summaries import FilePlan, Share, TableFile, Workshop, Written
from spark_jobs.materialising.table_files import TableFiles
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.parquet_file import put_table
from spark_jobs.tables.records import RECORDS
from spark_jobs.tables.unreadable import UNREADABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeTask:
    """Some files for one worker."""

    plans: tuple[FilePlan, ...]
    workshop: Workshop


@dataclass(slots=True)
class _Findings:
    """What decoding a file's batches brought up besides records."""

    unreadable: list[dict[str, Any]] = field(default_factory=list)
    decoded: int = 0
    legacy: int = 0

    def add(self, partition: TopicPartition, held: str, piece: Piece) -> None:
        self.decoded += piece.records.num_rows
        self.legacy += piece.records.num_rows if piece.is_legacy else 0
        headers = piece.rows.headers
        for problem in piece.problems:
            row = problem.batch
            self.unreadable.append(
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "held": held,
                    "object_order": int(piece.rows.object_order[row]),
                    "position": int(headers.position[row]),
                    "offset": int(headers.base_offset[row]),
                    "records": max(int(headers.record_count[row]), 0),
                    "reason": str(problem.error),
                }
            )


def decode_files(task: DecodeTask) -> tuple[Written, ...]:
    """Writes the planned files; the same task again writes the same bytes."""
    return tuple(_write(task.workshop, plan) for plan in task.plans)


def _write(workshop: Workshop, plan: FilePlan) -> Written:
    findings = _Findings()
    with TableFiles(workshop, plan.path, RECORDS.schema, RECORD_OPTIONS) as output:
        for share in plan.shares:
            for table in _records(workshop, share, findings):
                output.add(table)
        files = output.finish()
    return Written(
        plan=plan,
        files=files,
        unreadable=_put_unreadable(workshop, plan, findings),
        unreadable_records=sum(row["records"] for row in findings.unreadable),
        hidden=findings.decoded - sum(file.rows for file in files),
        legacy=findings.legacy,
    )


def _records(workshop: Workshop, share: Share, findings: _Findings) -> Iterator[pa.Table]:
    """The rows of the table for one partition, in order of offsets."""
    plan, view = share.plan, view_of(workshop.lake, share.plan)
    rows_of = RecordTable(
        partition=plan.partition.partition,
        view=view,
        run_date=workshop.run_date,
    ).rows_of
    for chunk in share.chunks:
        objects, parts = rows_and_objects(workshop.lake, workshop.settings, plan, chunk)
        limits = workshop.settings.limits.protocol
        decoder = Decoder(read=objects.read, name=objects.name, limits=limits)
        for rows in parts:
            for piece in decoder.decode(rows.take(view.shows(rows))):
                findings.add(plan.partition, chunk.held, piece)
                yield rows_of(piece)


def _put_unreadable(workshop: Workshop, plan: FilePlan, findings: _Findings) -> TableFile | None:
    if not findings.unreadable:
        return None
    table = UNREADABLE.cast(pa.Table.from_pylist(findings.unreadable, schema=UNREADABLE.schema))
    output = put_table(workshop.lake, workshop.folder, f"unreadable/{plan.name}.parquet", table)
    return TableFile(output=output, rows=table.num_rows)
