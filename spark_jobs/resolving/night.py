"""The partitions of a lake as a night finds them: what they brought, how far they were, what waits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import CONSUMER_OFFSETS, INTERNAL_TOPICS
from spark_jobs.flow import Step
from spark_jobs.protocol.producer_state import NO_OFFSET, AppendOrigin
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.resolving.cuts import Offsets
from spark_jobs.resolving.joined_files import Reach
from spark_jobs.resolving.part_rows import NewestMarker
from spark_jobs.resolving.run import Run
from spark_jobs.storage.folds import run_before
from spark_jobs.storage.layout import step_key
from spark_jobs.storage.manifest import ManifestEntry
from spark_jobs.storage.parquet_file import read_table
from spark_jobs.tables.state_origins import ORIGINS

PARTITIONS = "partitions.parquet"

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNight:
    """One partition; `admitted` and `before` are its rows in the tables of tonight's admit and of last night.

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
        """Up to where earlier nights have published."""
        return 0 if self.before is None else int(self.before["end_offset"])

    @property
    def waiting(self) -> str:
        return "" if self.before is None else str(self.before["waiting"])

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
        """Whether the night can change anything: it brings batches, or something waits."""
        if self.admitted is not None or self.before is None:
            return True
        return bool(self.waits) or self.partition.topic == CONSUMER_OFFSETS

    @property
    def waits(self) -> int:
        """Batches that earlier nights have held back, and transactions that are not over."""
        return 0 if self.before is None else int(self.before["held_batches"] + self.before["unsettled"])

    def _number(self, tonight: str, last_night: str) -> Any:
        if self.admitted is not None:
            return self.admitted[tonight]
        return 0 if self.before is None else self.before[last_night]


def partitions_of_night(
    partitions: Iterable[TopicPartition],
    *,
    admitted: Iterable[Row],
    before: Mapping[TopicPartition, Row],
    entries: Mapping[TopicPartition, tuple[ManifestEntry, ...]],
    settings: Settings,
) -> tuple[PartitionNight, ...]:
    """Every partition ever seen, numbered by topic and partition."""
    tonight = {TopicPartition(row["topic"], row["partition"]): row for row in admitted}
    known = sorted({*partitions, *tonight, *before})
    return tuple(
        PartitionNight(
            number=number,
            partition=partition,
            has_markers=has_markers(entries.get(partition, ()), before.get(partition), settings),
            entries=entries.get(partition, ()),
            admitted=tonight.get(partition),
            before=before.get(partition),
        )
        for number, partition in enumerate(known)
    )


def has_markers(entries: Sequence[ManifestEntry], before: Row | None, settings: Settings) -> bool:
    """False for a capture of producers alone, tonight's or the one that waits: no producer sends markers."""
    captured = {entry.source for entry in entries if entry.origin is AppendOrigin.CLIENT}
    if captured:
        return any(settings.source(name).markers for name in captured)
    return bool(entries) or before is None or bool(before["has_markers"])


def resolved_before(run: Run) -> dict[TopicPartition, Row]:
    """The rows of last night's partitions, as `resolve` left them."""
    run_id = run_before(run.lake, run.chain, run.folder.inputs.state_in)
    if not run_id:
        return {}
    rows = read_table(run.lake, step_key(run_id, Step.RESOLVE, PARTITIONS)).to_pylist()
    return {TopicPartition(row["topic"], row["partition"]): row for row in rows}


def gaps_between_nights(run: Run, night: Iterable[PartitionNight]) -> dict[TopicPartition, tuple[int, int]]:
    """First and last of the offsets behind which a snapshot took up what the night before had left."""
    rows = read_table(run.lake, run.folder.key(Step.REBUILD, ORIGINS)).to_pylist()
    starts = {TopicPartition(row["topic"], row["partition"]): row["snapshot_offset"] for row in rows}
    found = {
        each.partition: (int(each.admitted["start_offset"]), (starts.get(each.partition) or 0) - 1)
        for each in night
        if each.admitted is not None and each.before is not None
    }
    return {partition: gap for partition, gap in found.items() if gap[0] <= gap[1]}


def reach_of(night: Sequence[PartitionNight]) -> Reach:
    """How far each partition is published, by number."""
    return Reach(
        floors=np.array([each.floor for each in night], dtype=np.int64),
        is_internal=np.array([each.partition.topic in INTERNAL_TOPICS for each in night], dtype=np.bool_),
    )


def ends_of(night: Sequence[PartitionNight]) -> Offsets:
    """Where each log ends, by number."""
    return np.array([max(each.log_end_offset, each.floor) for each in night], dtype=np.int64)
