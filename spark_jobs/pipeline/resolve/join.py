"""What Spark tasks of `resolve` do second: join and resolve the parts and timelines of a bucket of producers.

Where a capture lacks markers, the coordinator's log gave them before the batches were judged, so that what is
closed needs no other treatment. What is still open there is ended by the coordinator, not by a marker: it can
only be the transaction that its first and its last batch both belong to.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.coordinator.timeline import CoordinatorTransaction
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.matching import SEVERAL, Candidates, candidates, match_batches
from spark_jobs.kafka.transactions.outcome import Evidence, Outcome, ResolvedTransaction
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction
from spark_jobs.kafka.transactions.resolve import ProducerTransactions, ResolveContext, decide, resolve
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.pipeline.coordinator_logs.timelines import COORDINATOR, gc_paused, transactions_in
from spark_jobs.pipeline.resolve.cuts import JoinedTransactions, PublishedBefore, flags
from spark_jobs.pipeline.resolve.parts import (
    BUCKET,
    GroupedParts,
    Int64s,
    bucket_of,
    ordered_parts,
    partition_transactions,
)
from spark_jobs.pipeline.resolve.recreated import later_logs, of_logs
from spark_jobs.pipeline.resolve.transaction_rows import Joined, JoinedRows, Origin, joined_parts_table
from spark_jobs.tables.rebuild import TIMELINES

POSITION = "position"
TIMELINE_ROWS = pa.schema(
    [
        pa.field(BUCKET, pa.int32(), nullable=False),
        pa.field(POSITION, pa.int64(), nullable=False),
        *TIMELINES.schema,
    ]
)
"""Rows of `timelines` on their way to the worker that resolves their producers: each with its row number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinFacts:
    """What is the same for every bucket; all but `context` and what is stored are by partition number.

    `ends` is where partitions end, `published` how far they are published. `work` is the key of the
    folder for the next tasks.
    """

    partitions: tuple[TopicPartition, ...]
    has_markers: tuple[bool, ...]
    published: PublishedBefore
    ends: Int64s
    context: ResolveContext
    lake: ObjectStore
    work: str


def read_timelines_of(lake: ObjectStore, buckets: int, key: str) -> Iterator[pa.Table]:
    """A file of `timelines` as rows of `TIMELINE_ROWS`."""
    table = read_table(lake, key)
    bucket = bucket_of(table.column("producer_id").to_numpy(), buckets)
    numbered = table.append_column(POSITION, pa.array(np.arange(table.num_rows)))
    yield numbered.append_column(BUCKET, pa.array(bucket)).select(TIMELINE_ROWS.names).cast(TIMELINE_ROWS)


def resolve_bucket(facts: JoinFacts, bucket: int, parts: pa.Table, timelines: pa.Table) -> Joined:
    """Resolves every producer of the bucket, and writes transactions and their parts."""
    with gc_paused():
        resolved, transactions = _resolve(ordered_parts(parts), timelines, facts)
    found = JoinedTransactions(
        parts=resolved.rows,
        transaction=resolved.transaction,
        transactions=transactions,
        published=facts.published,
    )
    return Joined(
        parts=_put(facts, f"parts-{bucket:05d}.parquet", joined_parts_table(resolved)),
        transactions=_put(facts, f"transactions-{bucket:05d}.parquet", transactions),
        undecided=found.oldest_undecided(facts.ends),
    )


def _resolve(parts: Rows, timelines: pa.Table, facts: JoinFacts) -> tuple[GroupedParts, pa.Table]:
    """The parts by transaction, and rows of `JOINED_TRANSACTIONS`."""
    marked = dict(zip(facts.partitions, facts.has_markers, strict=True))
    context = facts.context
    rows = JoinedRows(now=context.now, reach=context.reach, marked=marked, parts=parts)
    logs = later_logs(facts.partitions)
    for producer in producers_in(parts, timelines, facts.partitions):
        if logs:
            producer.coordinator = of_logs(producer.coordinator, producer.parts, logs, context)
        resolve_into(rows, producer, context)
    grouped = rows.grouped()
    return grouped, rows.transactions_table(grouped)


@dataclass(slots=True)
class Producer:
    """Everything about one producer id; `places` are those of its parts among all."""

    producer_id: int
    places: range
    transactional_id: str | None = None
    coordinator_partition: int | None = None
    is_unreadable: bool = False
    parts: list[PartitionTransaction] = field(default_factory=list)
    coordinator: list[CoordinatorTransaction] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)


def producers_in(
    parts: Rows, timelines: pa.Table, partitions: Sequence[TopicPartition]
) -> Iterator[Producer]:
    """The producers of a bucket by id; `parts` are in the order of `part_order`."""
    ids = np.unique(np.concatenate((parts["producer_id"], timelines.column("producer_id").to_numpy())))
    edges = [*np.searchsorted(parts["producer_id"], ids).tolist(), len(parts)]
    places = map(range, edges, edges[1:])
    producers = {each: Producer(each, own) for each, own in zip(ids.tolist(), places, strict=True)}
    for producer_id, owner, partition, is_unreadable in _owners(timelines):
        producers[producer_id].transactional_id = owner
        producers[producer_id].coordinator_partition = partition
        producers[producer_id].is_unreadable = is_unreadable
    for txn, coordinator_partition, is_news in transactions_in(_in_log_order(timelines)):
        producer = producers[txn.producer_id]
        producer.coordinator.append(txn)
        producer.origins.append(Origin(coordinator_partition, is_news))
    seen = partition_transactions(parts, partitions)
    for producer in producers.values():
        producer.parts.extend(islice(seen, len(producer.places)))
        yield producer


def _owners(timelines: pa.Table) -> Iterator[tuple[int, str, int, bool]]:
    """Of each producer id its last row's owner and partition, and whether any owner of it is unreadable."""
    columns = ("producer_id", "transactional_id", COORDINATOR, "is_unreadable", POSITION)
    rows = timelines.select(columns).sort_by([(COORDINATOR, "ascending"), (POSITION, "ascending")])
    ids = rows.column("producer_id").to_numpy()
    producers, from_end = np.unique(ids[::-1], return_index=True)
    last = rows.take(len(ids) - 1 - from_end)
    is_unreadable = np.isin(producers, ids[flags(rows, "is_unreadable")])
    owners = (last.column(name).to_pylist() for name in ("transactional_id", COORDINATOR))
    return zip(producers.tolist(), *owners, is_unreadable.tolist(), strict=True)


def _in_log_order(timelines: pa.Table) -> pa.Table:
    logged = timelines.filter(pc.is_valid(timelines.column("state")))
    return logged.sort_by([(COORDINATOR, "ascending"), ("first_record_offset", "ascending")])


def resolve_into(rows: JoinedRows, producer: Producer, context: ResolveContext) -> None:
    """Adds the producer's transactions to `rows`."""
    marked: list[PartitionTransaction] = []
    unmarked: list[PartitionTransaction] = []
    for part in producer.parts:
        is_unmarked = part.marker is None and not rows.marked[part.topic_partition]
        (unmarked if is_unmarked else marked).append(part)
    group = ProducerTransactions(
        producer_id=producer.producer_id,
        transactional_id=producer.transactional_id,
        coordinator_partition=producer.coordinator_partition,
        parts=tuple(marked),
        coordinator=tuple(producer.coordinator),
        is_unreadable=producer.is_unreadable,
    )
    resolved = resolve_producer(group, context, unmarked=unmarked)
    place_of = dict(zip(map(id, producer.parts), producer.places, strict=True))
    places = [place_of[id(part)] for each in resolved for part in each.parts]
    rows.add(resolved, producer.origins, places, owner=producer.coordinator_partition)


def _put(facts: JoinFacts, path: str, table: pa.Table) -> str:
    return f"{facts.work}/{put_table(facts.lake, facts.work, path, table).path}"


def resolve_producer(
    group: ProducerTransactions,
    context: ResolveContext,
    *,
    unmarked: Sequence[PartitionTransaction] = (),
) -> tuple[ResolvedTransaction, ...]:
    """An outcome for each transaction, in the order of `resolve`; `unmarked` are open parts of captures."""
    if not unmarked:
        return resolve(group, context)
    resolved = list(resolve(group, context))
    known = candidates(group.coordinator, clock_skew_ms=context.clock_skew_ms, trust_lone_aborts=False)
    for part in unmarked:
        index = transaction_of(part, known)
        if index >= 0:
            resolved[index] = _with_part(resolved[index], part, context, group)
        else:
            resolved.append(_by_itself(group, part, context, is_unclear=index == SEVERAL))
    return tuple(resolved)


def transaction_of(part: PartitionTransaction, known: Candidates) -> int:
    """The index of the one transaction that all of an open part's batches are of, NO_MATCH or SEVERAL."""
    first_epoch = part.producer_epoch if part.first_epoch is None else part.first_epoch
    ends = (
        replace(part, producer_epoch=first_epoch, last_timestamp=part.first_timestamp),
        replace(part, first_timestamp=part.last_timestamp),
    )
    first, last = match_batches(ends, known)
    return first if first == last else SEVERAL


def _with_part(
    resolved: ResolvedTransaction,
    part: PartitionTransaction,
    context: ResolveContext,
    group: ProducerTransactions,
) -> ResolvedTransaction:
    parts = (*resolved.parts, part)
    assert resolved.coordinator is not None  # the coordinator's transactions come first, in log order
    outcome, evidence = decide(resolved.coordinator, parts, context, group.coordinator_partition)
    return replace(
        resolved, parts=parts, outcome=outcome, evidence=evidence, producer_epoch=part.producer_epoch
    )


def _by_itself(
    group: ProducerTransactions, part: PartitionTransaction, context: ResolveContext, *, is_unclear: bool
) -> ResolvedTransaction:
    """A part that no one transaction of the coordinator's log explains."""
    alone = replace(group, parts=(part,), coordinator=())
    (resolved,) = resolve(alone, replace(context, has_markers=False))
    if is_unclear:
        return replace(resolved, outcome=Outcome.AMBIGUOUS, evidence=(Evidence.SEVERAL_FIT,))
    return resolved
