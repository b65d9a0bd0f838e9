"""Folded offsets of a `__consumer_offsets` partition as canonical bytes, and as rows of their table."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from spark_jobs.config.canonical import canonical_json
from spark_jobs.protocol.consumer_offsets import OffsetCommitValue
from spark_jobs.protocol.group_offsets import GroupOffsets, GroupPartition, StoredOffset
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.storage.errors import BrokenState
from spark_jobs.tables.resolve import CONSUMER_OFFSETS

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
    for _, waiting in sorted(offsets.pending.items()):
        for key, stored in sorted(waiting.items()):
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
