"""What Spark tasks of `resolve` do first: gather the parts of all transactions from their partitions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP
from spark_jobs.kafka.producers.producer_state import NO_OFFSET
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.partition_transactions import NO_MARKER, TRANSACTION
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.folds import HELD_PART, get_held
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.pipeline.resolve.parts import BUCKET, PART, PARTS, bucket_of, part_columns
from spark_jobs.pipeline.resolve.run_partitions import NewestMarker

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherPartition:
    """One partition: its number, and the digest of what is held of it.

    `gap`: first and last of the offsets that are neither in this run's log nor in that of the run before.
    `newest_marker` is that of earlier runs.
    """

    number: int
    partition: TopicPartition
    held_state: str
    gap: tuple[int, int] | None = None
    newest_marker: NewestMarker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherTask:
    """Some partitions for one worker; `transactions` is the key of their shared file, empty without one."""

    partitions: tuple[GatherPartition, ...]
    transactions: str
    lake: ObjectStore


def find_newest_markers(task: GatherTask) -> dict[int, NewestMarker]:
    """By number the newest marker of each partition that has one."""
    return newest_markers(_parts(task))


def gather_parts(buckets: int, task: GatherTask) -> Iterator[pa.Table]:
    """All parts of the partitions as rows of `PARTS`."""
    rows = _parts(task)
    before = {each.number: each.newest_marker for each in task.partitions if each.newest_marker is not None}
    note_appended(rows, before)
    columns = part_columns(rows)
    columns[BUCKET] = bucket_of(columns["producer_id"], buckets)
    yield pa.table([pa.array(columns[name]) for name in PARTS.names], schema=PARTS)


def _parts(task: GatherTask) -> Rows:
    """Those that were held, and those of the run."""
    held = [
        parts_held(get_held(task.lake, each.held_state).transactions, each.number) for each in task.partitions
    ]
    gaps = {each.number: each.gap for each in task.partitions if each.gap is not None}
    return joined(np.concatenate(held), _new_parts(task), gaps)


def _new_parts(task: GatherTask) -> Rows:
    if not task.transactions:
        return np.empty(0, dtype=PART)
    numbers = {each.partition: each.number for each in task.partitions}
    return parts_of_run(read_table(task.lake, task.transactions), numbers)


def parts_of_run(table: pa.Table, numbers: Mapping[TopicPartition, int]) -> Rows:
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


def parts_held(held: Rows, number: int) -> Rows:
    """Rows of `HELD_PART` of one partition."""
    rows = np.zeros(len(held), dtype=PART)
    for name in HELD_PART.names or ():
        rows[name] = held[name]
    rows["partition"] = number
    return rows


def joined(held: Rows, new: Rows, gaps: Mapping[int, tuple[int, int]]) -> Rows:
    """All parts of some partitions; this run's part with data replaces the held one of the same transaction.

    It is the same transaction if it began at the same offset; `is_below_published` is kept.
    What was held for its marker and is open no longer has ended where its partition, by number, has a gap.
    """
    places = {key: place for place, key in enumerate(_beginnings(held)) if held["batches"][place]}
    is_replaced = np.zeros(len(held), dtype=np.bool_)
    continued = np.flatnonzero((new["batches"] > 0) & (new["began_before"] != 0))
    for place, key in zip(continued.tolist(), _beginnings(new[continued]), strict=True):
        before = places.get(key)
        if before is not None:
            is_replaced[before] = True
            new["is_below_published"][place] = held["is_below_published"][before]
    left = held[~is_replaced]
    for number, (first_offset, last_offset) in gaps.items():
        ended = (left["partition"] == number) & (left["marker_type"] == NO_MARKER) & (left["batches"] > 0)
        left["gap_first_offset"][ended & (left["gap_first_offset"] == NO_OFFSET)] = first_offset
        left["gap_last_offset"][ended] = last_offset
    return np.concatenate((left, new))


def _beginnings(rows: Rows) -> list[tuple[int, int]]:
    return list(zip(rows["partition"].tolist(), rows["first_offset"].tolist(), strict=True))


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

    The twin of `kafka.transactions.hanging.appended_by`; `before` has the newest marker of earlier runs by
    partition.
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
