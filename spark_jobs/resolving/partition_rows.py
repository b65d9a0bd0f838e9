"""The table `resolved_partitions`: partitions that the night worked on, and those it had no reason to."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.resolving.carry_job import CarriedPartition
from spark_jobs.resolving.cuts import Offsets
from spark_jobs.resolving.night import PartitionNight
from spark_jobs.resolving.part_rows import NewestMarker
from spark_jobs.tables.resolve import RESOLVED_PARTITIONS


def partitions_table(
    night: Sequence[PartitionNight],
    carried: Iterable[CarriedPartition],
    decided: Offsets,
    newest_markers: Mapping[TopicPartition, NewestMarker],
) -> pa.Table:
    """A row for every partition; `decided` is by number where its oldest undecided transaction begins."""
    rows = [
        {**row, **_marked(newest_markers.get(TopicPartition(row["topic"], row["partition"])))}
        for row in _rows(night, carried, decided)
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
    night: Sequence[PartitionNight], carried: Iterable[CarriedPartition], decided: Offsets
) -> Iterator[dict[str, Any]]:
    worked = {each.partition: each for each in carried}
    for each in night:
        found = worked.get(each.partition)
        if found is not None:
            yield _row(each, found, int(decided[each.number]))
        elif each.before is not None:
            yield _idle_row(each.before)


def _row(night: PartitionNight, found: CarriedPartition, decided: int) -> dict[str, Any]:
    positions = found.positions
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "first_offset": found.first_offset,
        "end_offset": found.end_offset,
        "batches": None if night.admitted is None else night.admitted["batches"],
        "outcomes": None if found.outcomes is None else found.outcomes.path,
        "held": found.held,
        "late": found.late,
        "log_start_offset": night.log_start_offset,
        "log_end_offset": night.log_end_offset,
        "first_unstable_offset": positions.first_unstable_offset,
        "last_stable_offset": positions.last_stable_offset,
        "high_watermark": positions.high_watermark,
        "replicated_stable_offset": positions.replicated_stable_offset,
        "decided_offset": decided,
        "lag": night.log_end_offset - positions.last_stable_offset,
        "undecided": found.undecided,
        "held_batches": found.held_batches,
        "unsettled": found.unsettled,
        "has_markers": night.has_markers,
        "waiting": found.waiting,
    }


def _idle_row(before: Any) -> dict[str, Any]:
    """A partition that neither has news nor waits for anything stands where it stood."""
    nothing = {"batches": None, "outcomes": None, "held": (), "late": (), "held_batches": 0, "unsettled": 0}
    return {**before, **nothing, "first_offset": before["end_offset"]}
