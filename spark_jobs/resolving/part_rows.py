"""Transactions as partitions saw them, as columns: from the night's table and from what waited before it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.transactions import NO_MARKER, TRANSACTION
from spark_jobs.protocol.partition_transactions import PartitionTransaction, SpannedGap, WrittenMarker
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.resolving.buckets import BUCKET, bucket_of
from spark_jobs.storage.waiting_file import WAITING

PART = np.dtype(
    [("partition", np.int32), ("is_news", np.int8), *((name, WAITING[name]) for name in WAITING.names or ())]
)
"""One transaction on one partition, a number in the night's list; `is_news` if tonight told of it."""

PARTS = pa.schema(
    [
        pa.field(BUCKET, pa.int32(), nullable=False),
        *(pa.field(name, pa.from_numpy_dtype(PART[name]), nullable=False) for name in PART.names or ()),
    ]
)
_COMMIT = 1


def parts_of_night(table: pa.Table, numbers: Mapping[TopicPartition, int]) -> Rows:
    """Rows of the table `partition_transactions`."""
    rows = np.zeros(table.num_rows, dtype=PART)
    for name in TRANSACTION.names or ():
        column = table.column(name).combine_chunks()
        rows[name] = (column.fill_null(NO_MARKER) if column.null_count else column).to_numpy(
            zero_copy_only=False
        )
    names = zip(table.column("topic").to_pylist(), table.column("partition").to_pylist(), strict=True)
    rows["partition"] = [numbers[TopicPartition(str(topic), int(number or 0))] for topic, number in names]
    rows["is_news"] = 1
    return rows


def parts_waiting(waiting: Rows, number: int) -> Rows:
    """Rows of `WAITING` of one partition."""
    rows = np.zeros(len(waiting), dtype=PART)
    for name in WAITING.names or ():
        rows[name] = waiting[name]
    rows["partition"] = number
    return rows


def joined(waiting: Rows, night: Rows, gaps: Mapping[int, tuple[int, int]]) -> Rows:
    """All parts of some partitions; what the night says of a transaction with data replaces what waited.

    It is the same transaction if it began at the same offset; that it was taken for timed out is remembered.
    What waited for its marker and is open no longer has ended where its partition, by number, has a gap.
    """
    places = {key: place for place, key in enumerate(_beginnings(waiting)) if waiting["batches"][place]}
    is_replaced = np.zeros(len(waiting), dtype=np.bool_)
    going_on = np.flatnonzero((night["batches"] > 0) & (night["began_before"] != 0))
    for place, key in zip(going_on.tolist(), _beginnings(night[going_on]), strict=True):
        before = places.get(key)
        if before is not None:
            is_replaced[before] = True
            night["timed_out"][place] = waiting["timed_out"][before]
    left = waiting[~is_replaced]
    for number, (first_offset, last_offset) in gaps.items():
        ended = (left["partition"] == number) & (left["marker_type"] == NO_MARKER) & (left["batches"] > 0)
        left["gap_first_offset"][ended & (left["gap_first_offset"] == NO_OFFSET)] = first_offset
        left["gap_last_offset"][ended] = last_offset
    return np.concatenate((left, night))


def _beginnings(rows: Rows) -> list[tuple[int, int]]:
    return list(zip(rows["partition"].tolist(), rows["first_offset"].tolist(), strict=True))


def newest_markers(rows: Rows) -> dict[int, int]:
    """The time of the newest marker of each partition that has one, by its number."""
    marked = rows[rows["marker_type"] != NO_MARKER]
    partitions, places = np.unique(marked["partition"], return_inverse=True)
    newest = np.full(len(partitions), np.iinfo(np.int64).min)
    np.maximum.at(newest, places, marked["marker_timestamp"])
    return dict(zip(partitions.tolist(), newest.tolist(), strict=True))


def parts_table(rows: Rows, buckets: int) -> pa.Table:
    """`rows` with the bucket of each."""
    columns: dict[str, Any] = {name: np.ascontiguousarray(rows[name]) for name in PART.names or ()}
    columns[BUCKET] = bucket_of(columns["producer_id"], buckets)
    return pa.table([pa.array(columns[name]) for name in PARTS.names], schema=PARTS)


def parts_in(table: pa.Table) -> Rows:
    """The rows of a table of `PARTS` by producer, partition and offset."""
    rows = np.empty(table.num_rows, dtype=PART)
    for name in PART.names or ():
        rows[name] = table.column(name).to_numpy()
    return rows[part_order(rows)]


def part_order(rows: Rows) -> npt.NDArray[np.int64]:
    """By producer, partition, then offset of the marker; what is open is the newest on its partition.

    What spans a gap may have ended in it, but not before.
    """
    gap = rows["gap_last_offset"]
    end = np.where(gap == NO_OFFSET, np.iinfo(np.int64).max, gap)
    end = np.where(rows["marker_type"] == NO_MARKER, end, rows["marker_offset"])
    order: npt.NDArray[np.int64] = np.lexsort(
        (rows["first_offset"], end, rows["partition"], rows["producer_id"])
    )
    return order


class Part(NamedTuple):
    """A row of `PART`."""

    partition: int
    is_news: int
    producer_id: int
    first_offset: int
    last_offset: int
    batches: int
    records: int
    first_timestamp: int
    last_timestamp: int
    marker_offset: int
    marker_timestamp: int
    gap_first_offset: int
    gap_last_offset: int
    coordinator_epoch: int
    producer_epoch: int
    first_epoch: int
    marker_epoch: int
    marker_type: int
    began_before: int
    timed_out: int

    @property
    def is_open(self) -> bool:
        """No marker has closed it on its partition."""
        return self.marker_type == NO_MARKER


def partition_transaction(part: Part, topic_partition: TopicPartition) -> PartitionTransaction:
    """`part` as the rules want it."""
    return PartitionTransaction(
        topic_partition=topic_partition,
        producer_id=part.producer_id,
        producer_epoch=part.producer_epoch,
        first_offset=part.first_offset,
        last_offset=part.last_offset,
        batch_count=part.batches,
        first_timestamp=part.first_timestamp,
        last_timestamp=part.last_timestamp,
        marker=None if part.is_open else _marker(part),
        first_epoch=None if part.first_epoch == part.producer_epoch else part.first_epoch,
        gap=None if part.gap_first_offset == NO_OFFSET else _gap(part),
    )


def _gap(part: Part) -> SpannedGap:
    return SpannedGap(first_offset=part.gap_first_offset, last_offset=part.gap_last_offset)


def _marker(part: Part) -> WrittenMarker:
    return WrittenMarker(
        offset=part.marker_offset,
        producer_epoch=part.marker_epoch,
        coordinator_epoch=part.coordinator_epoch,
        timestamp=part.marker_timestamp,
        is_commit=part.marker_type == _COMMIT,
    )
