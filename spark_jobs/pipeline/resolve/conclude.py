"""What Spark tasks of `resolve` do third and fourth: lower the cuts, then write the table `transactions`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.execution.shuffle import Note
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.hanging import HangingTransaction, hanging_transaction
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction
from spark_jobs.kernels.partition_transactions import NO_MARKER
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import ParquetOutput
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.pipeline.coordinator_logs.timelines import COMPLETED, COORDINATOR
from spark_jobs.pipeline.resolve.cuts import (
    Cut,
    Dispositions,
    JoinedTransactions,
    PublishedBefore,
    dispositions_of,
    flags,
    lower_cuts,
    read_joined,
)
from spark_jobs.pipeline.resolve.parts import (
    PART_FIELDS,
    Int64s,
    Numbers,
    part_columns,
    partition_transactions,
)
from spark_jobs.pipeline.resolve.recreated import deleted_logs
from spark_jobs.pipeline.resolve.transaction_rows import NONE, OUTCOME_NAMES, Joined
from spark_jobs.tables.resolve import TRANSACTIONS

BIN = "bin"
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field(BIN, pa.int32(), nullable=False),
    pa.field("outcome", pa.int8(), nullable=False),
    pa.field("is_timed_out", pa.bool_(), nullable=False),
    pa.field("is_late", pa.bool_(), nullable=False),
    pa.field("is_kept", pa.bool_(), nullable=False),
    pa.field("transactional_id", pa.string()),
]
CONCLUDED_PARTS = pa.schema([*_FIELDS, *PART_FIELDS])
"""Parts with their outcome, on their way to the worker that closes their partition's `bin`.

`is_late`: published now, below its partition's floor. `is_kept`: not completed. `is_below_published`
of a part is for the next run: its batches are held, though below its cut.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutFacts:
    """How far partitions are published at most, by number."""

    cuts: Int64s
    published: PublishedBefore
    lake: ObjectStore


def move_cuts(facts: CutFacts, joined: Joined) -> Int64s:
    """The cuts as far as the transactions of a bucket lower them."""
    found = read_joined(facts.lake, joined, facts.published)
    return lower_cuts(found.to_publish(), facts.cuts, facts.published.floors)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludeFacts:
    """What is the same for every bucket; `bins` is by partition number the task that closes it.

    `folder` is the key of the folder for outputs.
    """

    partitions: tuple[TopicPartition, ...]
    cut: Cut
    bins: Numbers
    lake: ObjectStore
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludeTask:
    """Buckets that share a file of `transactions`."""

    number: int
    joined: tuple[Joined, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCounts:
    """Counts of transactions by outcome.

    `behind` are those that cannot be decided because the coordinator's copy is older than the data, `skew_ms`
    by how much at most, as far as the copies show. `unknowable` are those of captures without markers whose
    outcome no log shows.
    """

    outcomes: Counter[Outcome]
    published: int = 0
    timed_out: int = 0
    behind: int = 0
    skew_ms: int = 0
    unknowable: int = 0

    def __add__(self, other: "OutcomeCounts") -> "OutcomeCounts":
        return OutcomeCounts(
            outcomes=self.outcomes + other.outcomes,
            published=self.published + other.published,
            timed_out=self.timed_out + other.timed_out,
            behind=self.behind + other.behind,
            skew_ms=max(self.skew_ms, other.skew_ms),
            unknowable=self.unknowable + other.unknowable,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Concluded:
    """A file of the table `transactions`, and what is in it."""

    number: int
    output: OutputFile
    counted: OutcomeCounts


def conclude_transactions(facts: ConcludeFacts, task: ConcludeTask) -> Iterator[pa.Table | Note]:
    """Writes the rows of `transactions`; yields rows of `CONCLUDED_PARTS`, and `Concluded` as a note."""
    counted = OutcomeCounts(outcomes=Counter())
    with ParquetOutput(facts.lake, TRANSACTIONS.schema) as output:
        for joined in task.joined:
            found = read_joined(facts.lake, joined, facts.cut.published)
            dispositions = dispositions_of(found, facts.cut.cuts)
            output.write(transactions_table(found, dispositions, facts.cut, facts.partitions))
            counted += _count(found, dispositions)
            yield concluded_parts_table(found, dispositions, facts.cut, facts.bins)
        path = TRANSACTIONS.file_of(task=task.number)
        yield Note(Concluded(number=task.number, output=output.finish(facts.folder, path), counted=counted))


def completed_rows(facts: ConcludeFacts, task: ConcludeTask) -> Iterator[pa.Table]:
    """Rows of `COMPLETED`."""
    for joined in task.joined:
        found = read_joined(facts.lake, joined, facts.cut.published)
        yield completed_table(found, dispositions_of(found, facts.cut.cuts))


def _count(found: JoinedTransactions, dispositions: Dispositions) -> OutcomeCounts:
    counts = np.bincount(found.outcome[dispositions.is_listed], minlength=len(OUTCOME_NAMES)).tolist()
    return OutcomeCounts(
        outcomes=Counter(dict(zip(OUTCOME_NAMES, counts, strict=True))),
        published=int(dispositions.is_published.sum()),
        timed_out=int((found.is_timed_out & dispositions.is_listed).sum()),
        behind=int(found.is_behind.sum()),
        skew_ms=_skew_ms(found),
        unknowable=int(flags(found.transactions, "is_unknowable").sum()),
    )


def _skew_ms(file: JoinedTransactions) -> int:
    """By how much coordinators' copies are older than the data, at most; 0 where no times are known."""
    rows = file.transactions.filter(pa.array(file.is_behind))
    skews = pc.subtract(rows.column("data_time"), rows.column("coordinator_time"))
    return int(pc.max(skews).as_py() or 0)


def concluded_parts_table(
    file: JoinedTransactions, dispositions: Dispositions, cut: Cut, bins: Numbers
) -> pa.Table:
    """Rows of `CONCLUDED_PARTS`."""
    parts, number = file.parts.copy(), file.transaction
    is_timed_out = file.is_timed_out[number]
    was_late = parts["is_below_published"] != 0
    is_below = parts["first_offset"] < cut.cuts[parts["partition"]]
    stays_late = was_late & (file.is_undecided | dispositions.is_held)[number]
    is_passed = (is_timed_out | file.is_set_aside[number]) & is_below
    parts["is_below_published"] = (parts["batches"] > 0) & (is_passed | stays_late)
    columns: dict[str, Any] = {
        BIN: bins[parts["partition"]],
        "outcome": file.outcome[number].astype(np.int8),
        "is_timed_out": is_timed_out,
        "is_late": was_late & dispositions.is_published[number],
        "is_kept": (parts["marker_type"] == NO_MARKER) | ~dispositions.is_completed[number],
        "transactional_id": file.transactions.column("transactional_id").take(number),
        **part_columns(parts),
    }
    return pa.table([columns[name] for name in CONCLUDED_PARTS.names], schema=CONCLUDED_PARTS)


def completed_table(file: JoinedTransactions, dispositions: Dispositions) -> pa.Table:
    """Rows of `COMPLETED`."""
    known = file.transactions.column(COORDINATOR).to_numpy() != NONE
    completed = file.transactions.filter(pa.array(known & dispositions.is_completed))
    return completed.select(COMPLETED.names).cast(COMPLETED)


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
    """The parts of undecided transactions, each behind the numbers of its transaction and its partition."""
    chosen = file.is_open_data
    rows, numbers = file.parts[chosen], file.transaction[chosen].tolist()
    return zip(numbers, rows["partition"].tolist(), partition_transactions(rows, partitions), strict=True)


def _burden(part: PartitionTransaction, partition: int, cut: Cut) -> HangingTransaction:
    """What the part holds back: everything from where its partition is decided, if it is the oldest there."""
    return hanging_transaction(
        part,
        last_stable_offset=int(cut.decided[partition]),
        high_watermark=int(cut.ends[partition]),
    )
