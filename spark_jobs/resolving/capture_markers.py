"""What runs in a Spark task to give captures their markers, where the coordinator's log ends transactions.

A marker goes right behind the last batch of its transaction on the partition. Where it cannot be told which
transaction a batch belongs to, no marker is given to its producer from there on: what is unclear stays open,
and is held.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.transactions import NO_MARKER
from spark_jobs.protocol.capture_matching import match_batches
from spark_jobs.protocol.coordinator_transaction import CoordinatorTransaction
from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transaction_candidates import Candidates, candidates
from spark_jobs.resolving.captured_batches import CapturedBatch, chains_of, producers_in
from spark_jobs.resolving.timeline_rows import transactions_in
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import put_table, read_table
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.storage.state_file import get_state
from spark_jobs.storage.waiting_file import get_waiting
from spark_jobs.tables.markers import MARKERS

AT_THE_START = -(2**31)
"""`before_object_order` of a marker that comes before everything of the night."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerJob:
    """One captured partition: index files of tonight, its state at the start, what waits of it."""

    partition: TopicPartition
    keys: tuple[str, ...]
    state: str
    waiting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerTask:
    """Some partitions for one worker; `timelines` are keys of files, `folder` is that of the step."""

    jobs: tuple[MarkerJob, ...]
    timelines: tuple[str, ...]
    clock_skew_ms: int
    lake: ObjectStore
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """The markers of one partition; no file if it needs none."""

    partition: TopicPartition
    markers: int = 0
    output: OutputFile | None = None


def mark_captures(task: MarkerTask) -> tuple[Marked, ...]:
    """Writes the markers that each partition lacks."""
    producers = {job.partition: _producers(task, job) for job in task.jobs}
    known = coordinator_transactions(task.lake, task.timelines, set().union(*producers.values()))
    return tuple(
        _mark(task, job, {p: known[p] for p in producers[job.partition] if p in known}) for job in task.jobs
    )


def _producers(task: MarkerTask, job: MarkerJob) -> set[int]:
    return producers_in(task.lake, job.keys) | set(_open_parts(task, job)["producer_id"].tolist())


def _open_parts(task: MarkerTask, job: MarkerJob) -> Rows:
    rows = get_waiting(task.lake, job.waiting).transactions
    found: Rows = rows[(rows["marker_type"] == NO_MARKER) & (rows["batches"] > 0)]
    return found


def coordinator_transactions(
    lake: ObjectStore, timelines: Iterable[str], producers: set[int]
) -> dict[int, list[CoordinatorTransaction]]:
    """The transactions of some producers in the order of the coordinator's log."""
    found: dict[int, list[CoordinatorTransaction]] = {}
    wanted = pa.array(sorted(producers), pa.int64())
    for key in timelines:
        table = read_table(lake, key)
        is_wanted = pc.and_(
            pc.is_in(table.column("producer_id"), value_set=wanted), pc.is_valid(table.column("state"))
        )
        told = table.filter(is_wanted).sort_by("first_record_offset")
        for txn, _, _ in transactions_in(told):
            found.setdefault(txn.producer_id, []).append(txn)
    return found


def _mark(task: MarkerTask, job: MarkerJob, known: Mapping[int, Sequence[CoordinatorTransaction]]) -> Marked:
    by_producer = {
        producer_id: candidates(txns, clock_skew_ms=task.clock_skew_ms, trust_lone_aborts=False)
        for producer_id, txns in known.items()
    }
    state = get_state(task.lake, job.state)
    named = {producer_id: frozenset(each.named_by_data) for producer_id, each in by_producer.items()}
    chains = chains_of(task.lake, job.keys, state.producers, named)
    before = {int(row["producer_id"]): row for row in _open_parts(task, job)}
    rows = [
        row
        for producer_id, each in sorted(by_producer.items())
        for row in markers_of(
            job.partition,
            producer_id,
            [*_opened(before.get(producer_id)), *chains[producer_id].batches],
            each,
        )
    ]
    if not rows:
        return Marked(partition=job.partition)
    return Marked(partition=job.partition, markers=len(rows), output=_put(task, job, rows))


def _opened(row: "np.void | None") -> Iterator[CapturedBatch]:
    """An open transaction of earlier nights, by its first and its last batch."""
    if row is not None:
        place = (AT_THE_START, 0)
        yield CapturedBatch(int(row["first_epoch"]), int(row["first_timestamp"]), *place)
        yield CapturedBatch(int(row["producer_epoch"]), int(row["last_timestamp"]), *place)


def markers_of(
    partition: TopicPartition, producer_id: int, batches: Sequence[CapturedBatch], known: Candidates
) -> Iterator[dict[str, int]]:
    """A marker behind the last batch of every decided transaction, up to the first batch that is unclear."""
    matched = match_batches([_as_part(partition, producer_id, each) for each in batches], known)
    for place, index in enumerate(matched):
        if index < 0:
            return
        is_last = place + 1 == len(matched) or matched[place + 1] != index
        txn = known.transactions[index]
        if is_last and txn.result is None:
            return
        if is_last:
            yield _marker(txn, batches[place])


def _as_part(partition: TopicPartition, producer_id: int, batch: CapturedBatch) -> PartitionTransaction:
    return PartitionTransaction(
        topic_partition=partition,
        producer_id=producer_id,
        producer_epoch=batch.producer_epoch,
        first_offset=0,
        last_offset=0,
        batch_count=1,
        first_timestamp=batch.timestamp,
        last_timestamp=batch.timestamp,
    )


def _marker(txn: CoordinatorTransaction, behind: CapturedBatch) -> dict[str, int]:
    """The marker as its coordinator would have sent it."""
    assert txn.marker_epoch is not None  # it is decided
    assert txn.end_timestamp_ms is not None
    return {
        "before_object_order": behind.object_order,
        "before_position": behind.position + (behind.object_order != AT_THE_START),
        "producer_id": txn.producer_id,
        "producer_epoch": txn.marker_epoch,
        "control_type": int(txn.result is TransactionResult.COMMIT),
        "coordinator_epoch": txn.coordinator_epochs[-1],
        "timestamp": txn.end_timestamp_ms,
    }


def _put(task: MarkerTask, job: MarkerJob, rows: list[dict[str, int]]) -> OutputFile:
    """Markers of one place stand by the time of their decision."""
    order = ("before_object_order", "before_position", "timestamp", "producer_id")
    rows.sort(key=lambda row: tuple(row[name] for name in order))
    table = MARKERS.cast(pa.Table.from_pylist(rows, schema=MARKERS.schema))
    return put_table(task.lake, task.folder, f"markers/{job.partition}.parquet", table)
