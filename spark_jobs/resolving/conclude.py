"""What runs in Spark tasks to agree on how far partitions are published, and once that is known."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.coordinator_logs.buckets import write_grouped
from spark_jobs.coordinator_logs.completed import COMPLETED, COORDINATOR
from spark_jobs.kernels.transactions import NO_MARKER
from spark_jobs.protocol.hanging import HangingTransaction, hanging_transaction
from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transaction_outcome import Outcome
from spark_jobs.resolving.cuts import (
    Cut,
    Dispositions,
    JoinedTransactions,
    Published,
    dispositions_of,
    flags,
    lower_cuts,
    read_joined,
)
from spark_jobs.resolving.parts import PART, Numbers, Offsets, partition_transactions
from spark_jobs.resolving.recreated import deleted_logs
from spark_jobs.resolving.transaction_rows import NONE, OUTCOME_NAMES, Joined
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import ParquetOutput, put_table
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.tables.resolve import TRANSACTIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class CutTask:
    """Joined files whose transactions may move `cuts`."""

    joined: Joined
    cuts: Offsets
    reach: Published
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
    dispositions = dispositions_of(file, task.cut.cuts)
    rows = transactions_table(file, dispositions, task.cut, task.partitions)
    number = f"{task.joined.number:05d}.parquet"
    counted = np.bincount(file.outcome[dispositions.is_listed], minlength=len(OUTCOME_NAMES)).tolist()
    parts, completed = (
        concluded_parts_table(file, dispositions, task.cut, task.bins),
        completed_table(file, dispositions),
    )
    return Concluded(
        output=put_table(task.lake, task.folder, f"transactions/{number}", rows),
        parts=_put_grouped(task, f"concluded-{number}", parts, BIN),
        completed=_put_grouped(task, f"completed-{number}", completed, COORDINATOR),
        outcomes=dict(zip(OUTCOME_NAMES, counted, strict=True)),
        published=int(dispositions.is_published.sum()),
        timed_out=int((file.is_timed_out & dispositions.is_listed).sum()),
        behind=int(file.is_behind.sum()),
        skew_ms=_skew_ms(file),
        unknowable=int(flags(file.transactions, "is_unknowable").sum()),
    )


def _skew_ms(file: JoinedTransactions) -> int:
    """By how much coordinators' copies are older than the data, at most; 0 where no times are known."""
    rows = file.transactions.filter(pa.array(file.is_behind))
    skews = pc.subtract(rows.column("data_time"), rows.column("coordinator_time"))
    return int(pc.max(skews).as_py() or 0)


def _put_grouped(task: ConcludeTask, path: str, table: pa.Table, column: str) -> str:
    with ParquetOutput(task.lake, table.schema) as output:
        write_grouped(output, table, column)
        return f"{task.work}/{output.finish(task.work, path).path}"


BIN = "bin"
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field(BIN, pa.int32(), nullable=False),
    pa.field("outcome", pa.int8(), nullable=False),
    pa.field("is_timed_out", pa.bool_(), nullable=False),
    pa.field("is_late", pa.bool_(), nullable=False),
    pa.field("is_kept", pa.bool_(), nullable=False),
    pa.field("transactional_id", pa.string()),
    *(pa.field(name, pa.from_numpy_dtype(PART[name]), nullable=False) for name in PART.names or ()),
]
CONCLUDED_PARTS = pa.schema(_FIELDS)
"""Parts with their outcome. `is_late`: published now, below its partition's floor. `is_kept`: not settled.

`timed_out` of a part is what the next run has to know: its batches are held, though below its cut.
"""


def concluded_parts_table(
    file: JoinedTransactions, dispositions: Dispositions, cut: Cut, bins: Numbers
) -> pa.Table:
    """Rows of `CONCLUDED_PARTS`; `bins` says by which task each partition is carried on."""
    parts, number = file.parts.copy(), file.transaction
    is_timed_out = file.is_timed_out[number]
    was_late = parts["timed_out"] != 0
    is_below = parts["last_offset"] < cut.cuts[parts["partition"]]
    stays_late = was_late & (file.is_undecided | dispositions.waits)[number]
    is_passed = (is_timed_out | file.is_set_aside[number]) & is_below
    parts["timed_out"] = (parts["batches"] > 0) & (is_passed | stays_late)
    columns: dict[str, Any] = {
        BIN: bins[parts["partition"]],
        "outcome": file.outcome[number].astype(np.int8),
        "is_timed_out": is_timed_out,
        "is_late": was_late & dispositions.is_published[number],
        "is_kept": (parts["marker_type"] == NO_MARKER) | ~dispositions.is_settled[number],
        "transactional_id": file.transactions.column("transactional_id").take(number),
        **{name: np.ascontiguousarray(parts[name]) for name in PART.names or ()},
    }
    return pa.table([columns[name] for name in CONCLUDED_PARTS.names], schema=CONCLUDED_PARTS)


def completed_table(file: JoinedTransactions, dispositions: Dispositions) -> pa.Table:
    """Rows of `COMPLETED`."""
    known = file.transactions.column(COORDINATOR).to_numpy() != NONE
    return (
        file.transactions.filter(pa.array(known & dispositions.is_settled))
        .select(COMPLETED.names)
        .cast(COMPLETED)
    )


def transactions_table(
    file: JoinedTransactions, dispositions: Dispositions, cut: Cut, partitions: Sequence[TopicPartition]
) -> pa.Table:
    """Rows of `TRANSACTIONS`."""
    held_back = np.zeros(file.transactions.num_rows, dtype=np.int64)
    is_hanging = file.outcome == OUTCOME_NAMES.index(Outcome.HANGING)
    owners = file.transactions.column("transactional_id").to_pylist() if is_hanging.any() else []
    commands: dict[int, list[str]] = {}
    deleted = deleted_logs(partitions)
    for number, partition, part in _undecided_parts(file, partitions):
        burden = _burden(part, partition, cut)
        held_back[number] += burden.held_back
        if is_hanging[number] and part.marker is None and part.topic_partition not in deleted:
            commands.setdefault(number, []).append(burden.advice(owners[number]))
    kind = TRANSACTIONS.schema.field("abort_commands").type
    by_number = [commands.get(number, ()) for number in range(len(held_back))]
    table = (
        file.transactions.append_column("published", pa.array(dispositions.is_published))
        .append_column("held_back", pa.array(held_back))
        .append_column("abort_commands", pa.array(by_number, kind))
    )
    return TRANSACTIONS.cast(table.filter(pa.array(dispositions.is_listed)))


def _undecided_parts(
    file: JoinedTransactions, partitions: Sequence[TopicPartition]
) -> Iterator[tuple[int, int, PartitionTransaction]]:
    """The parts that somebody has to decide, each behind the numbers of its transaction and its partition."""
    chosen = file.is_waited_for
    rows, numbers = file.parts[chosen], file.transaction[chosen].tolist()
    return zip(numbers, rows["partition"].tolist(), partition_transactions(rows, partitions), strict=True)


def _burden(part: PartitionTransaction, partition: int, cut: Cut) -> HangingTransaction:
    """What the part holds back: everything from where its partition is decided, if it is the oldest there."""
    return hanging_transaction(
        part,
        last_stable_offset=int(cut.decided[partition]),
        high_watermark=int(cut.ends[partition]),
    )
