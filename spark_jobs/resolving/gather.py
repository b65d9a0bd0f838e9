"""What runs in a Spark task to gather transactions as partitions saw them, divided by producer."""

from dataclasses import dataclass

import numpy as np

from spark_jobs.coordinator_logs.buckets import BUCKET, write_grouped
from spark_jobs.kernels.producers import Rows
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.resolving.part_rows import (
    PART,
    PARTS,
    NewestMarker,
    joined,
    newest_markers,
    note_appended,
    parts_of_night,
    parts_table,
    parts_waiting,
)
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import ParquetOutput, read_table
from spark_jobs.storage.waiting_file import get_waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherPartition:
    """One partition: its number, and the digest of what waits of it.

    `gap`: first and last of the offsets between last night's log and tonight's, if any are in neither.
    `newest_marker` is that of earlier runs.
    """

    number: int
    partition: TopicPartition
    waiting: str
    gap: tuple[int, int] | None = None
    newest_marker: NewestMarker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherTask:
    """Some partitions for one worker; `transactions` is the key of their shared file, empty without one."""

    number: int
    partitions: tuple[GatherPartition, ...]
    transactions: str
    buckets: int
    lake: ObjectStore
    work: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A file of parts, and by the number of a partition its newest marker."""

    key: str
    rows: int
    newest_markers: dict[int, NewestMarker]


def gather_parts(task: GatherTask) -> Gathered:
    """Writes all parts of the partitions: those that waited, and those of the night."""
    waiting = [
        parts_waiting(get_waiting(task.lake, each.waiting).transactions, each.number)
        for each in task.partitions
    ]
    gaps = {each.number: each.gap for each in task.partitions if each.gap is not None}
    rows = joined(np.concatenate(waiting), _tonight(task), gaps)
    before = {each.number: each.newest_marker for each in task.partitions if each.newest_marker is not None}
    note_appended(rows, before)
    with ParquetOutput(task.lake, PARTS) as output:
        write_grouped(output, parts_table(rows, task.buckets), BUCKET)
        path = output.finish(task.work, f"gathered-{task.number:05d}.parquet").path
    return Gathered(key=f"{task.work}/{path}", rows=len(rows), newest_markers=newest_markers(rows))


def _tonight(task: GatherTask) -> Rows:
    if not task.transactions:
        return np.empty(0, dtype=PART)
    numbers = {each.partition: each.number for each in task.partitions}
    return parts_of_night(read_table(task.lake, task.transactions), numbers)
