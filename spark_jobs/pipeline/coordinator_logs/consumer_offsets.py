"""Consumer offsets of a `__consumer_offsets` partition, folded from run to run (facts §5), and their file."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.canonical import canonical_json
from spark_jobs.kafka.coordinator.group_offsets import (
    GroupOffsets,
    GroupPartition,
    OffsetCommit,
    OffsetsMarker,
    StoredOffset,
    fold,
    read_events,
)
from spark_jobs.kafka.errors import CorruptCoordinatorRecord
from spark_jobs.kafka.formats.consumer_offsets import OffsetCommitValue
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.errors import BrokenState
from spark_jobs.lake.layout import state_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import iter_rows
from spark_jobs.lake.states import get_content
from spark_jobs.pipeline.coordinator_logs.log_records import COLUMNS, LogReader, LogRecords
from spark_jobs.tables.resolve import CONSUMER_OFFSETS

MOST_PROBLEMS = 5
Event = OffsetCommit | OffsetsMarker


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedOffsets:
    """Offsets after the run, and some of what could not be read."""

    offsets: GroupOffsets
    problems: tuple[str, ...]


def get_offsets(lake: ObjectStore, digest: str) -> GroupOffsets:
    """The offsets of that name; none for no name."""
    if not digest:
        return GroupOffsets()
    return read_offsets(get_content(lake, digest), source=lake.url_of(state_key(digest)))


def fold_offsets(
    before: GroupOffsets, batches: Iterable[pa.RecordBatch], reader: LogReader, ends: Iterable[OffsetsMarker]
) -> FoldedOffsets:
    """Folds accepted batches in offset order, then the `ends` of transactions that have no marker here."""
    problems: list[str] = []

    def events() -> Iterator[Event]:
        for rows in batches:
            for piece in reader.read(rows):
                yield from _events(piece, problems)
        yield from ends

    return FoldedOffsets(offsets=fold(events(), before=before), problems=tuple(problems[:MOST_PROBLEMS]))


def accepted_batches(lake: ObjectStore, key: str) -> Iterator[pa.RecordBatch]:
    """The accepted rows of a file of `batches`."""
    for rows in iter_rows(lake, key, columns=[*COLUMNS, "verdict"]):
        yield rows.filter(pc.equal(rows.column("verdict"), pa.scalar(Verdict.ACCEPTED.value)))


def _events(piece: LogRecords, problems: list[str]) -> Iterator[Event]:
    """What the records mean, one by one: an unreadable one is passed over."""
    if piece.problem:
        problems.append(piece.problem)
    for record in piece.records:
        try:
            yield from read_events(piece.header, (record,))
        except CorruptCoordinatorRecord as error:
            problems.append(str(error))


FORMAT = 1
_VALUE = ("offset", "metadata", "commit_timestamp", "leader_epoch", "expire_timestamp")


def write_offsets(offsets: GroupOffsets) -> bytes:
    """JSON lines: a heading, then every offset by group, partition and producer."""
    lines = [_line(key, stored, pending=pending) for pending, key, stored in _in_order(offsets)]
    return b"".join(canonical_json(line) + b"\n" for line in ({"format": FORMAT}, *lines))


def read_offsets(data: bytes, *, source: str = "<bytes>") -> GroupOffsets:
    """The offsets in `data`; `source` names it in messages."""
    heading, *lines = [json.loads(line) for line in data.splitlines()]
    if heading["format"] != FORMAT:
        raise BrokenState(f"{source}: offsets of format {heading['format']}, this version reads {FORMAT}")
    committed: dict[GroupPartition, StoredOffset] = {}
    pending: dict[int, dict[GroupPartition, StoredOffset]] = {}
    for line in lines:
        key, stored = _read_line(line)
        store = pending.setdefault(stored.producer_id, {}) if line["pending"] else committed
        store[key] = stored
    return GroupOffsets(committed=committed, pending=pending)


def offsets_table(offsets: GroupOffsets, offsets_partition: int) -> pa.Table:
    """Rows of the table `consumer_offsets`."""
    rows = [
        {
            **_line(key, stored, pending=pending),
            "offsets_partition": offsets_partition,
        }
        for pending, key, stored in _in_order(offsets)
    ]
    return CONSUMER_OFFSETS.cast(pa.Table.from_pylist(rows, schema=CONSUMER_OFFSETS.schema))


def _in_order(offsets: GroupOffsets) -> Iterator[tuple[bool, GroupPartition, StoredOffset]]:
    for key, stored in sorted(offsets.committed.items()):
        yield False, key, stored
    for _, own in sorted(offsets.pending.items()):
        for key, stored in sorted(own.items()):
            yield True, key, stored


def _line(key: GroupPartition, stored: StoredOffset, *, pending: bool) -> dict[str, Any]:
    group, (topic, partition) = key
    return {
        "group": group,
        "topic": topic,
        "partition": partition,
        "pending": pending,
        "producer_id": stored.producer_id,
        "record_offset": stored.record_offset,
        **{name: getattr(stored.value, name) for name in _VALUE},
    }


def _read_line(line: dict[str, Any]) -> tuple[GroupPartition, StoredOffset]:
    value = OffsetCommitValue(**{name: line[name] for name in _VALUE})
    stored = StoredOffset(value=value, record_offset=line["record_offset"], producer_id=line["producer_id"])
    return (line["group"], TopicPartition(line["topic"], line["partition"])), stored
