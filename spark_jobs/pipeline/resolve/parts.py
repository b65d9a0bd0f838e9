"""A part is one transaction on one partition: as rows, as values for the rules, grouped by transaction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP
from spark_jobs.kafka.producers.producer_state import NO_OFFSET
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import (
    PartitionTransaction,
    SpannedGap,
    WrittenMarker,
)
from spark_jobs.kernels.partition_transactions import NO_MARKER
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.folds import HELD_PART
from spark_jobs.pipeline.coordinator_logs.timelines import VALUES_AT_A_TIME

Int64s = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

PART = np.dtype(
    [
        ("partition", np.int32),
        ("is_news", np.int8),
        ("appended_by", np.int64),
        *((name, HELD_PART[name]) for name in HELD_PART.names or ()),
    ]
)
"""One transaction on one partition, a number in the run's list; `is_news` if this run's batches are in it.

`appended_by` is a broker's time by which its last batch was appended, -1 if none is known.
"""

PART_FIELDS: "tuple[pa.Field[Any], ...]" = tuple(
    pa.field(name, pa.from_numpy_dtype(PART[name]), nullable=False) for name in PART.names or ()
)
"""The columns of a part in tables."""

BUCKET = "bucket"
PARTS = pa.schema([pa.field(BUCKET, pa.int32(), nullable=False), *PART_FIELDS])
"""Parts on their way to the worker that resolves their producers."""
ROWS_PER_BUCKET = 40_000
"""Batches of the run per bucket: more than transactions, usually, one of which takes as long as many."""
MOST_BUCKETS = 256
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio: consecutive ids are in different buckets."""
_COMMIT = 1


def bucket_count(batches: int) -> int:
    """A power of two that follows from the run's size alone: the same run gives the same files anywhere."""
    shares = -(-batches // ROWS_PER_BUCKET)
    return min(1 << max(shares - 1, 0).bit_length(), MOST_BUCKETS)


def bucket_of(producer_id: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int32]:
    """The bucket of each producer id: all of a producer's transactions are resolved together."""
    mixed = producer_id.astype(np.uint64) * _SPREAD >> np.uint64(40)
    return (mixed % np.uint64(buckets)).astype(np.int32)


def part_columns(rows: Rows) -> dict[str, Any]:
    """Rows of `PART` as the columns of `PART_FIELDS`."""
    return {name: np.ascontiguousarray(rows[name]) for name in PART.names or ()}


def part_rows(table: pa.Table) -> Rows:
    """Rows of `PART`, out of a table that has its columns."""
    rows = np.empty(table.num_rows, dtype=PART)
    for name in PART.names or ():
        rows[name] = table.column(name).to_numpy()
    return rows


def ordered_parts(table: pa.Table) -> Rows:
    """Rows of `PART` in the order of `part_order`."""
    rows = part_rows(table)
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


_SEEN = (
    "partition",
    "producer_id",
    "producer_epoch",
    "first_epoch",
    "first_offset",
    "last_offset",
    "batches",
    "first_timestamp",
    "last_timestamp",
    "appended_by",
)
_GAP = ("gap_first_offset", "gap_last_offset")
_MARKER = ("marker_type", "marker_offset", "marker_epoch", "coordinator_epoch", "marker_timestamp")


def partition_transactions(
    rows: Rows, partitions: Sequence[TopicPartition]
) -> Iterator[PartitionTransaction]:
    """`rows` of `PART` as values for the rules, created lazily; `partitions` are by number."""
    for start in range(0, len(rows), VALUES_AT_A_TIME):
        yield from _values_of(rows[start : start + VALUES_AT_A_TIME], partitions)


def _values_of(rows: Rows, partitions: Sequence[TopicPartition]) -> Iterator[PartitionTransaction]:
    markers = map(_marker, *(rows[name].tolist() for name in _MARKER))
    gaps = map(_gap, *(rows[name].tolist() for name in _GAP))
    seen = (rows[name].tolist() for name in _SEEN)
    for number, producer_id, epoch, first_epoch, first, last, batches, began, ended, by, marker, gap in zip(
        *seen, markers, gaps, strict=True
    ):
        yield PartitionTransaction(
            topic_partition=partitions[number],
            producer_id=producer_id,
            producer_epoch=epoch,
            first_offset=first,
            last_offset=last,
            batch_count=batches,
            first_timestamp=began,
            last_timestamp=ended,
            marker=marker,
            first_epoch=None if first_epoch == epoch else first_epoch,
            gap=gap,
            appended_by=None if by == NO_TIMESTAMP else by,
        )


def _gap(first_offset: int, last_offset: int) -> SpannedGap | None:
    if first_offset == NO_OFFSET:
        return None
    return SpannedGap(first_offset=first_offset, last_offset=last_offset)


def _marker(
    kind: int, offset: int, epoch: int, coordinator_epoch: int, timestamp: int
) -> WrittenMarker | None:
    if kind == NO_MARKER:
        return None
    return WrittenMarker(
        offset=offset,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=timestamp,
        is_commit=kind == _COMMIT,
    )


_LATEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedParts:
    """Rows of `PART`, the number of each one's transaction, ascending, and how many of those there are."""

    rows: Rows
    transaction: Numbers
    count: int

    @property
    def has_data(self) -> Flags:
        found: Flags = self.rows["batches"] > 0
        return found

    @property
    def has_marker(self) -> Flags:
        found: Flags = self.rows["marker_type"] != NO_MARKER
        return found

    def of(self, transactions: slice) -> "GroupedParts":
        """The parts of some transactions, which are counted from the first of these."""
        start, stop, _ = transactions.indices(self.count)
        places = slice(*np.searchsorted(self.transaction, (start, stop)).tolist())
        return GroupedParts(
            rows=self.rows[places], transaction=self.transaction[places] - start, count=stop - start
        )

    def any_of(self, chosen: Flags) -> Flags:
        """Of each transaction, whether a part of it is chosen."""
        found = np.zeros(self.count, dtype=np.bool_)
        found[self.transaction[chosen]] = True
        return found

    def total(self, name: str) -> Int64s:
        """Of each transaction, the sum of a column over its parts with data."""
        found = np.zeros(self.count, dtype=np.int64)
        chosen = self.has_data
        np.add.at(found, self.transaction[chosen], self.rows[name][chosen])
        return found

    def least(self, name: str, chosen: Flags) -> "pa.Array[Any]":
        """Of each transaction, the least of a column over its chosen parts; null without any."""
        found = np.full(self.count, _LATEST)
        np.minimum.at(found, self.transaction[chosen], self.rows[name][chosen])
        least: pa.Array[Any] = pa.array(found, mask=~self.any_of(chosen))
        return least

    def beginnings(self) -> tuple[Rows, pa.Int32Array]:
        """The first part with data of each transaction on each partition, by transaction, then partition.

        With them the place of each transaction's first one, and behind all of them their number.
        """
        places = np.flatnonzero(self.has_data)
        keys = (self.transaction[places].astype(np.int64) << 32) + self.rows["partition"][places]
        first = places[np.unique(keys, return_index=True)[1]]
        starts = np.searchsorted(self.transaction[first], np.arange(self.count + 1))
        return self.rows[first], pa.array(starts, pa.int32())
