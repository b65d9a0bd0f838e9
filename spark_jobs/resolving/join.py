"""What runs in a Spark task to resolve some buckets: parts and timelines of the same producers, joined."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.protocol.coordinator_transaction import CoordinatorTransaction
from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transactions import ProducerTransactions, ResolveContext
from spark_jobs.resolving.buckets import BUCKET, read_grouped
from spark_jobs.resolving.cuts import Offsets
from spark_jobs.resolving.joined_files import Reach, joined_file
from spark_jobs.resolving.joined_rows import Joined, JoinedRows, Origin
from spark_jobs.resolving.part_rows import PARTS, Part, partition_transaction, parts_in
from spark_jobs.resolving.producer_outcomes import resolve_producer
from spark_jobs.resolving.timeline_rows import transactions_in
from spark_jobs.resolving.uncollected import uncollected
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import put_table
from spark_jobs.tables.timelines import TIMELINES


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What every task of the night knows: its partitions by number, and which of them have markers."""

    partitions: tuple[TopicPartition, ...]
    has_markers: tuple[bool, ...]
    context: ResolveContext


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTask:
    """Some buckets for one worker; `work` is the key of the folder for the next tasks.

    `ends` and `reach` say by number where partitions end, and how far they are published.
    """

    number: int
    buckets: range
    night: Night
    reach: Reach
    ends: Offsets
    parts: tuple[str, ...]
    timelines: tuple[str, ...]
    lake: ObjectStore
    work: str


def resolve_buckets(task: JoinTask) -> Joined:
    """Resolves every producer of the buckets, and writes transactions and their parts."""
    parts = read_grouped(task.lake, task.parts, BUCKET, task.buckets, schema=PARTS)
    timelines = read_grouped(task.lake, task.timelines, BUCKET, task.buckets, schema=TIMELINES.schema)
    night = task.night
    marked = dict(zip(night.partitions, night.has_markers, strict=True))
    rows = JoinedRows(now=night.context.now, marked=marked)
    with uncollected():
        for producer in producers_in(parts, timelines):
            resolve_into(rows, producer, night)
        resolved, transactions = rows.parts_table(), rows.transactions_table()
    return Joined(
        number=task.number,
        parts=_put(task, f"parts-{task.number:05d}.parquet", resolved),
        transactions=_put(task, f"transactions-{task.number:05d}.parquet", transactions),
        undecided=joined_file(resolved, transactions, task.reach).oldest_undecided(task.ends),
    )


@dataclass(slots=True)
class Producer:
    """Everything about one producer id."""

    producer_id: int
    transactional_id: str | None = None
    is_unreadable: bool = False
    parts: list[Part] = field(default_factory=list)
    coordinator: list[CoordinatorTransaction] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)


def producers_in(parts: pa.Table, timelines: pa.Table) -> Iterator[Producer]:
    """The producers of some buckets by id; `parts` of schema `PARTS`, `timelines` of that contract."""
    producers: dict[int, Producer] = {}
    rows = parts_in(parts)
    ids = np.unique(np.concatenate((rows["producer_id"], timelines.column("producer_id").to_numpy())))
    for producer_id in ids.tolist():
        producers[producer_id] = Producer(producer_id)
    owners = ("producer_id", "transactional_id", "is_unreadable")
    for producer_id, owner, is_unreadable in zip(
        *(timelines.column(name).to_pylist() for name in owners), strict=True
    ):
        producers[producer_id].transactional_id = owner
        producers[producer_id].is_unreadable |= is_unreadable
    for txn, coordinator_partition, is_news in transactions_in(_in_log_order(timelines)):
        producer = producers[txn.producer_id]
        producer.coordinator.append(txn)
        producer.origins.append(Origin(coordinator_partition=coordinator_partition, is_news=is_news))
    for row in rows.tolist():
        producers[row[2]].parts.append(Part._make(row))
    yield from producers.values()


def _in_log_order(timelines: pa.Table) -> pa.Table:
    told = timelines.filter(pc.is_valid(timelines.column("state")))
    return told.sort_by([("coordinator_partition", "ascending"), ("first_record_offset", "ascending")])


def resolve_into(rows: JoinedRows, producer: Producer, night: Night) -> None:
    """Adds the producer's transactions to `rows`."""
    by_id: dict[int, Part] = {}
    marked: list[PartitionTransaction] = []
    unmarked: list[tuple[PartitionTransaction, int]] = []
    for part in producer.parts:
        seen = partition_transaction(part, night.partitions[part.partition])
        by_id[id(seen)] = part
        if part.is_open and not night.has_markers[part.partition]:
            unmarked.append((seen, part.first_epoch))
        else:
            marked.append(seen)
    group = ProducerTransactions(
        producer_id=producer.producer_id,
        transactional_id=producer.transactional_id,
        parts=tuple(marked),
        coordinator=tuple(producer.coordinator),
        is_unreadable=producer.is_unreadable,
    )
    origins = dict(zip(map(id, producer.coordinator), producer.origins, strict=True))
    for resolved in resolve_producer(group, night.context, unmarked=unmarked):
        parts = [by_id[id(part)] for part in resolved.parts]
        rows.add(resolved, parts, origins.get(id(resolved.coordinator)))


def _put(task: JoinTask, path: str, table: pa.Table) -> str:
    return f"{task.work}/{put_table(task.lake, task.work, path, table).path}"
