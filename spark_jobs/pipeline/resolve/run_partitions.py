"""The partitions of a run for `resolve`: their rows of this run and of the run before, and after it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import CONSUMER_OFFSETS, INTERNAL_TOPICS
from spark_jobs.flow import Step
from spark_jobs.kafka.producers.producer_state import NO_OFFSET
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.folds import Row, has_markers
from spark_jobs.lake.manifest import ManifestEntry
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.pipeline.context import RunContext
from spark_jobs.pipeline.resolve.close_partitions import ClosedPartition
from spark_jobs.pipeline.resolve.cuts import PublishedBefore
from spark_jobs.pipeline.resolve.parts import Int64s
from spark_jobs.tables.rebuild import STATE_ORIGINS
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS


class NewestMarker(NamedTuple):
    """The last offset and the latest time of a partition's markers."""

    offset: int
    timestamp: int

    def joined(self, other: "NewestMarker | None") -> "NewestMarker":
        return self if other is None else NewestMarker(*map(max, self, other))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvePartition:
    """One partition; `admitted` is its row of this run's `admit`, `before` that of the last run's `resolve`.

    At least one of them is there.
    """

    number: int
    partition: TopicPartition
    has_markers: bool
    entries: tuple[ManifestEntry, ...] = ()
    admitted: Row | None = None
    before: Row | None = None

    @property
    def floor(self) -> int:
        """Up to where earlier runs have published."""
        return 0 if self.before is None else int(self.before["end_offset"])

    @property
    def held_state(self) -> str:
        return "" if self.before is None else str(self.before["held_state"])

    @property
    def newest_marker(self) -> NewestMarker | None:
        """The newest marker that earlier runs have seen; -1 is its offset if they did not note it."""
        if self.before is None or self.before["marked_until"] is None:
            return None
        offset = self.before.get("marked_offset")
        return NewestMarker(
            offset=NO_OFFSET if offset is None else offset, timestamp=self.before["marked_until"]
        )

    @property
    def log_end_offset(self) -> int:
        return int(self._number("end_offset", "log_end_offset"))

    @property
    def log_start_offset(self) -> int:
        return int(self._number("log_start_offset", "log_start_offset"))

    @property
    def is_busy(self) -> bool:
        """Whether the run can change anything: it brings batches, or something is held."""
        if self.admitted is not None or self.before is None:
            return True
        return bool(self.held_count) or self.partition.topic == CONSUMER_OFFSETS

    @property
    def held_count(self) -> int:
        """Batches that earlier runs have held back, and transactions that are not over."""
        return 0 if self.before is None else int(self.before["held_batches"] + self.before["unsettled"])

    def _number(self, found_now: str, before: str) -> Any:
        if self.admitted is not None:
            return self.admitted[found_now]
        return 0 if self.before is None else self.before[before]


def partitions_of_run(
    partitions: Iterable[TopicPartition],
    *,
    admitted: Iterable[Row],
    before: Mapping[TopicPartition, Row],
    entries: Mapping[TopicPartition, tuple[ManifestEntry, ...]],
    settings: Settings,
) -> tuple[ResolvePartition, ...]:
    """Every partition ever seen, numbered by topic and partition."""
    found_now = {TopicPartition(row["topic"], row["partition"]): row for row in admitted}
    known = sorted({*partitions, *found_now, *before})
    return tuple(
        ResolvePartition(
            number=number,
            partition=partition,
            has_markers=has_markers(entries.get(partition, ()), before.get(partition), settings),
            entries=entries.get(partition, ()),
            admitted=found_now.get(partition),
            before=before.get(partition),
        )
        for number, partition in enumerate(known)
    )


def gaps_between_runs(
    run: RunContext, partitions: Iterable[ResolvePartition]
) -> dict[TopicPartition, tuple[int, int]]:
    """First and last of the missing offsets between the end of the run before and a snapshot."""
    rows = read_table(run.lake, run.folder.key(Step.REBUILD, STATE_ORIGINS.file)).to_pylist()
    starts = {TopicPartition(row["topic"], row["partition"]): row["snapshot_offset"] for row in rows}
    found = {
        each.partition: (int(each.admitted["start_offset"]), (starts.get(each.partition) or 0) - 1)
        for each in partitions
        if each.admitted is not None and each.before is not None
    }
    return {partition: gap for partition, gap in found.items() if gap[0] <= gap[1]}


def published_of(partitions: Sequence[ResolvePartition]) -> PublishedBefore:
    """How far each partition is published, by number."""
    return PublishedBefore(
        floors=np.array([each.floor for each in partitions], dtype=np.int64),
        is_internal=np.array(
            [each.partition.topic in INTERNAL_TOPICS for each in partitions], dtype=np.bool_
        ),
    )


def ends_of(partitions: Sequence[ResolvePartition]) -> Int64s:
    """Where each log ends, by number."""
    return np.array([max(each.log_end_offset, each.floor) for each in partitions], dtype=np.int64)


def partitions_table(
    partitions: Sequence[ResolvePartition],
    closed: Iterable[ClosedPartition],
    decided: Int64s,
    newest_markers: Mapping[TopicPartition, NewestMarker],
) -> pa.Table:
    """A row for every partition; `decided` is by number where its oldest undecided transaction begins."""
    rows = [
        {**row, **_marked(newest_markers.get(TopicPartition(row["topic"], row["partition"])))}
        for row in _rows(partitions, closed, decided)
    ]
    return RESOLVED_PARTITIONS.cast(pa.Table.from_pylist(rows, schema=RESOLVED_PARTITIONS.schema))


def _marked(newest: NewestMarker | None) -> dict[str, int | None]:
    if newest is None:
        return {"marked_until": None, "marked_offset": None}
    return {
        "marked_until": newest.timestamp,
        "marked_offset": None if newest.offset == NO_OFFSET else newest.offset,
    }


def _rows(
    partitions: Sequence[ResolvePartition], closed: Iterable[ClosedPartition], decided: Int64s
) -> Iterator[dict[str, Any]]:
    worked = {each.partition: each for each in closed}
    for each in partitions:
        found = worked.get(each.partition)
        if found is not None:
            yield _row(each, found, int(decided[each.number]))
        elif each.before is not None:
            yield _idle_row(each.before)


def _row(own: ResolvePartition, found: ClosedPartition, decided: int) -> dict[str, Any]:
    positions = found.positions
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "first_offset": found.first_offset,
        "end_offset": found.end_offset,
        "batches": None if own.admitted is None else own.admitted["batches"],
        "outcomes": None if found.outcomes is None else found.outcomes.path,
        "held": found.held,
        "late": found.late,
        "log_start_offset": own.log_start_offset,
        "log_end_offset": own.log_end_offset,
        "first_unstable_offset": positions.first_unstable_offset,
        "last_stable_offset": positions.last_stable_offset,
        "high_watermark": positions.high_watermark,
        "replicated_stable_offset": positions.replicated_stable_offset,
        "decided_offset": decided,
        "lag": own.log_end_offset - positions.last_stable_offset,
        "undecided": found.undecided,
        "held_batches": found.held_batches,
        "unsettled": found.unsettled,
        "has_markers": own.has_markers,
        "held_state": found.held_state,
    }


def _idle_row(before: Any) -> dict[str, Any]:
    """A partition without new batches and without held ones stays where it was."""
    nothing = {"batches": None, "outcomes": None, "held": (), "late": (), "held_batches": 0, "unsettled": 0}
    return {**before, **nothing, "first_offset": before["end_offset"]}
