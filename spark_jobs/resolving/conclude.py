"""What runs in Spark tasks to agree on the night's cut, and once it is known."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.coordinator_logs.buckets import write_grouped
from spark_jobs.coordinator_logs.completed import COORDINATOR
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transaction_outcome import Outcome
from spark_jobs.resolving.concluded_rows import (
    BIN,
    completed_table,
    parts_table,
    transactions_table,
)
from spark_jobs.resolving.cuts import Numbers, Offsets, lower_cuts
from spark_jobs.resolving.fates import Cut, decide_fates
from spark_jobs.resolving.joined_files import JoinedFile, Reach, flags, read_joined
from spark_jobs.resolving.joined_rows import OUTCOMES, Joined
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import ParquetOutput, put_table
from spark_jobs.storage.run_folder import OutputFile


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTask:
    """Joined files whose transactions may move `cuts`."""

    joined: Joined
    cuts: Offsets
    reach: Reach
    lake: ObjectStore


def move_cuts(task: CutTask) -> Offsets:
    """The cuts as far as these transactions lower them."""
    file = read_joined(task.lake, task.joined, task.reach)
    return lower_cuts(file.to_publish(), task.cuts, task.reach.floors)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludeTask:
    """Joined files to be concluded; `bins` says by which task each partition is carried on.

    `folder` takes outputs, `work` what only the next tasks read.
    """

    joined: Joined
    partitions: tuple[TopicPartition, ...]
    cut: Cut
    bins: Numbers
    lake: ObjectStore
    folder: str
    work: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Concluded:
    """What became of some transactions: the table's file, keys of files for the next tasks, and counts.

    `behind` are those that cannot be decided because the coordinator's copy is older than the data, `skew_ms`
    by how much at most, as far as the copies show. `unknowable` are those of captures without markers whose
    outcome no log shows.
    """

    output: OutputFile
    parts: str
    completed: str
    outcomes: dict[Outcome, int]
    published: int
    timed_out: int
    behind: int
    skew_ms: int
    unknowable: int


def conclude_transactions(task: ConcludeTask) -> Concluded:
    """Writes the rows of `transactions`, and what partitions and coordinators have to know of them."""
    file = read_joined(task.lake, task.joined, task.cut.reach)
    fates = decide_fates(file, task.cut.cuts)
    rows = transactions_table(file, fates, task.cut, task.partitions)
    number = f"{task.joined.number:05d}.parquet"
    counted = np.bincount(file.outcome[fates.is_listed], minlength=len(OUTCOMES)).tolist()
    parts, completed = parts_table(file, fates, task.cut, task.bins), completed_table(file, fates)
    return Concluded(
        output=put_table(task.lake, task.folder, f"transactions/{number}", rows),
        parts=_put_grouped(task, f"concluded-{number}", parts, BIN),
        completed=_put_grouped(task, f"completed-{number}", completed, COORDINATOR),
        outcomes=dict(zip(OUTCOMES, counted, strict=True)),
        published=int(fates.is_published.sum()),
        timed_out=int((file.is_timed_out & fates.is_listed).sum()),
        behind=int(file.is_behind.sum()),
        skew_ms=_skew_ms(file),
        unknowable=int(flags(file.transactions, "is_unknowable").sum()),
    )


def _skew_ms(file: JoinedFile) -> int:
    """By how much coordinators' copies are older than the data, at most; 0 where no times are known."""
    rows = file.transactions.filter(pa.array(file.is_behind))
    skews = pc.subtract(rows.column("data_time"), rows.column("coordinator_time"))
    return int(pc.max(skews).as_py() or 0)


def _put_grouped(task: ConcludeTask, path: str, table: pa.Table, column: str) -> str:
    with ParquetOutput(task.lake, table.schema) as output:
        write_grouped(output, table, column)
        return f"{task.work}/{output.finish(task.work, path).path}"
