"""What a Spark task of `audit` counts in the table `transactions`: is each published as a whole?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.outcome import Evidence, Outcome
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_rows
from spark_jobs.pipeline.audit.columns import Flags

READ = [
    "transactional_id", "producer_id", "producer_epoch", "outcome", "evidence", "partitions_found", "batches",
    "first_offsets",
]  # fmt: skip
MOST_EXAMPLES = 5
UNDECIDED = [Outcome.CONFLICT.value, Outcome.AMBIGUOUS.value]
"""The sources do not show how these ended; an open one is recorded as open in the coordinator's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRange:
    """What the run publishes of a partition: offsets, and transactions that began before them."""

    partition: TopicPartition
    first_offset: int
    end_offset: int
    late: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionTask:
    """One file of the table `transactions`; without `ranges` it is not checked whether they are whole."""

    file: str
    key: str
    ranges: tuple[PublishedRange, ...]
    lake: ObjectStore


def count_transactions(task: TransactionTask) -> Mapping[str, Any]:
    """A row of `transaction_facts`."""
    count, batches, undecided, torn, owners = 0, 0, 0, list[str](), list[pa.Table]()
    for part in iter_rows(task.lake, task.key, columns=READ):
        count += part.num_rows
        sizes = np.asarray(part.column("batches"))
        batches += int(sizes.sum())
        undecided += int(sizes[_is_undecided(part)].sum())
        if task.ranges:
            torn += [_name(row) for row in part.filter(_is_torn(part, task.ranges)).to_pylist()]
        owners.append(_owners(part))
    shared = _shared(owners)
    examples = [
        *(f"{name} is torn" for name in torn),
        *(f"producer {each} has several owners" for each in shared),
    ]
    return {
        "file": task.file,
        "transactions": count,
        "batches": batches,
        "undecided_batches": undecided,
        "torn_transactions": len(torn),
        "shared_producer_ids": len(shared),
        "examples": "; ".join(examples[:MOST_EXAMPLES]),
    }


def _is_undecided(part: pa.RecordBatch) -> Flags:
    """Without a coordinator's log an older client's transactions look like one that is open for good."""
    evidence = part.column("evidence")
    is_blind = np.asarray(pc.equal(pc.list_flatten(evidence), pa.scalar(Evidence.NO_COORDINATOR_LOG.value)))
    parent = np.asarray(pc.list_parent_indices(evidence))
    blind = np.bincount(parent, weights=is_blind, minlength=part.num_rows) > 0
    ongoing = np.asarray(pc.equal(part.column("outcome"), pa.scalar(Outcome.ONGOING.value)))
    unknown = np.asarray(pc.is_in(part.column("outcome"), value_set=pa.array(UNDECIDED)))
    undecided: Flags = unknown | (ongoing & blind)
    return undecided


def _is_torn(part: pa.RecordBatch, ranges: tuple[PublishedRange, ...]) -> Flags:
    """Committed transactions that are published on some of their partitions, but not on all."""
    found = part.column("partitions_found")
    names = pc.list_flatten(found)
    shown = _are_published(names, pc.list_flatten(part.column("first_offsets")), ranges)
    parent = np.asarray(pc.list_parent_indices(found))
    total = np.bincount(parent, weights=_have_tables(names), minlength=part.num_rows)
    published = np.bincount(parent, weights=shown, minlength=part.num_rows)
    committed = np.asarray(pc.equal(part.column("outcome"), pa.scalar(Outcome.COMMITTED.value)))
    torn: Flags = committed & (published > 0) & (published < total)
    return torn


def _have_tables(names: "pa.Array[Any]") -> Flags:
    """Offsets that a transaction commits go to a topic of Kafka's own, of which there is no table."""
    pattern = f"^({'|'.join(INTERNAL_TOPICS)})-"
    return ~np.asarray(pc.match_substring_regex(names, pattern=pattern))


def _are_published(
    names: "pa.Array[Any]", first_offsets: "pa.Array[Any]", ranges: tuple[PublishedRange, ...]
) -> Flags:
    """Whether the transaction that begins there is among what the run publishes of the partition."""
    known = pa.array([str(each.partition) for each in ranges])
    place = np.asarray(pc.index_in(names, value_set=known).fill_null(len(ranges)))
    offset = np.asarray(first_offsets)
    first = np.array([*(each.first_offset for each in ranges), 0])[place]
    end = np.array([*(each.end_offset for each in ranges), 0])[place]
    published: Flags = (first <= offset) & (offset < end)
    for number, each in enumerate(ranges):
        if each.late:
            published |= (place == number) & np.isin(offset, each.late)
    return published


def _owners(part: pa.RecordBatch) -> pa.Table:
    """Each producer id with each transactional id that claims it."""
    claimed = pa.table({name: part.column(name) for name in ("producer_id", "transactional_id")})
    return (
        claimed.filter(pc.is_valid(claimed.column("transactional_id")))
        .group_by(claimed.column_names)
        .aggregate([])
    )


def _shared(owners: list[pa.Table]) -> list[int]:
    if not owners:
        return []
    pairs = pa.concat_tables(owners).group_by(["producer_id", "transactional_id"]).aggregate([])
    ids, counts = np.unique(np.asarray(pairs.column("producer_id")), return_counts=True)
    return [int(each) for each in ids[counts > 1]]


def _name(row: dict[str, Any]) -> str:
    owner = f" of {row['transactional_id']}" if row["transactional_id"] is not None else ""
    return f"transaction{owner} by producer {row['producer_id']} in epoch {row['producer_epoch']}"
