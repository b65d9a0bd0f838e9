"""Transactions as partitions saw them, as columns: from the night's table and from what waited before it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.coordinator_logs.buckets import BUCKET, bucket_of
from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.transactions import NO_MARKER, TRANSACTION
from spark_jobs.protocol.partition_transactions import PartitionTransaction, SpannedGap, WrittenMarker
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.protocol.record_batch import NO_TIMESTAMP
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.waiting_file import WAITING

PART = np.dtype(
    [
        ("partition", np.int32),
        ("is_news", np.int8),
        ("appended_by", np.int64),
        *((name, WAITING[name]) for name in WAITING.names or ()),
    ]
)
"""One transaction on one partition, a number in the run's list; `is_news` if this run's batches are in it.

`appended_by` is a broker's time by which its last batch was appended, -1 if none is known.
"""

PARTS = pa.schema(
    [
        pa.field(BUCKET, pa.int32(), nullable=False),
        *(pa.field(name, pa.from_numpy_dtype(PART[name]), nullable=False) for name in PART.names or ()),
    ]
)
_COMMIT = 1
_NEVER = np.iinfo(np.int64).max


def parts_of_night(table: pa.Table, numbers: Mapping[TopicPartition, int]) -> Rows:
    """Rows of the table `partition_transactions`."""
    rows = np.zeros(table.num_rows, dtype=PART)
    for name in TRANSACTION.names or ():
        column = table.column(name).combine_chunks()
        rows[name] = (column.fill_null(NO_MARKER) if column.null_count else column).to_numpy(
            zero_copy_only=False
        )
    named = zip(table.column("topic").to_pylist(), table.column("partition").to_pylist(), strict=True)
    plain: Mapping[Any, int] = numbers  # a pair finds what its equal, the partition, would
    rows["partition"] = [plain[name] for name in named]
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


class NewestMarker(NamedTuple):
    """The last offset and the latest time of a partition's markers."""

    offset: int
    timestamp: int

    def joined(self, other: "NewestMarker | None") -> "NewestMarker":
        return self if other is None else NewestMarker(*map(max, self, other))


def newest_markers(rows: Rows) -> dict[int, NewestMarker]:
    """The newest marker of each partition that has one, by its number."""
    marked = rows[rows["marker_type"] != NO_MARKER]
    partitions, places = np.unique(marked["partition"], return_inverse=True)
    newest = np.full((2, len(partitions)), np.iinfo(np.int64).min)
    np.maximum.at(newest[0], places, marked["marker_offset"])
    np.maximum.at(newest[1], places, marked["marker_timestamp"])
    return dict(zip(partitions.tolist(), map(NewestMarker, *newest.tolist()), strict=True))


def note_appended(rows: Rows, before: Mapping[int, NewestMarker]) -> None:
    """Fills in `appended_by` of what is open: the earliest time of a marker behind its last batch.

    The twin of `protocol.copy_reach.appended_by`; `before` is by partition the newest marker of earlier runs.
    """
    rows["appended_by"] = NO_TIMESTAMP
    has_marker = rows["marker_type"] != NO_MARKER
    is_open = ~has_marker & (rows["batches"] > 0)
    markers = (
        rows[has_marker][["partition", "marker_offset", "marker_timestamp"]] if is_open.any() else rows[:0]
    )
    markers = markers[np.lexsort((markers["marker_offset"], markers["partition"]))]
    places = np.flatnonzero(is_open)
    for number in np.unique(rows["partition"][places]).tolist():
        first, stop = np.searchsorted(markers["partition"], (number, number + 1)).tolist()
        own = places[rows["partition"][places] == number]
        rows["appended_by"][own] = _earliest_behind(
            rows["last_offset"][own], markers[first:stop], before.get(number)
        )


def _earliest_behind(
    offsets: npt.NDArray[np.int64], markers: Rows, before: NewestMarker | None
) -> npt.NDArray[np.int64]:
    """For each offset the earliest time of a marker behind it; `markers` ascend by offset."""
    earliest = np.append(np.minimum.accumulate(markers["marker_timestamp"][::-1])[::-1], _NEVER)
    found = earliest[np.searchsorted(markers["marker_offset"], offsets, side="right")]
    if before is not None:
        found = np.where(before.offset > offsets, np.minimum(found, before.timestamp), found)
    return np.where(found == _NEVER, NO_TIMESTAMP, found)


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
    """`rows` of `PART` as the rules want them, each when it is asked for; `partitions` are by number."""
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
