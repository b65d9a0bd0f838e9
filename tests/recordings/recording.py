"""One folder of recordings: which files are there decides what is compared."""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.recordings.events import Event, read_events
from tests.recordings.log_directory import NO_LOG_DIRECTORY, LogDirectory, read_log_directory

CONVERSATIONS = "replies*.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One broker's events in wire order; a folder may hold several, of brokers that ran one after another."""

    name: str
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """A partition's offsets as the broker reported them at the end."""

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int


Truth = Mapping[TopicPartition, tuple[Mapping[str, Any], ...]]
"""The records that a consumer got, by partition, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A folder's content; missing files are None or empty."""

    name: str
    conversations: tuple[Conversation, ...]
    directory: LogDirectory | None
    offsets: Mapping[TopicPartition, PartitionOffsets]
    committed: Truth | None
    uncommitted: Truth | None
    dumps: Mapping[TopicPartition, str]

    @property
    def logs(self) -> LogDirectory:
        return NO_LOG_DIRECTORY if self.directory is None else self.directory


def is_recording(root: Path) -> bool:
    """Whether `root` holds a log directory or a conversation."""
    return (root / "data").is_dir() or any(root.glob(CONVERSATIONS))


def read_recording(root: Path) -> Recording:
    """The recording in `root`."""
    data, offsets = root / "data", root / "offsets.json"
    return Recording(
        name=root.name,
        conversations=tuple(
            Conversation(name=path.stem, events=read_events(path))
            for path in sorted(root.glob(CONVERSATIONS))
        ),
        directory=read_log_directory(data) if data.is_dir() else None,
        offsets=_read_offsets(offsets) if offsets.exists() else {},
        committed=_read_truth(root / "truth.jsonl"),
        uncommitted=_read_truth(root / "truth_uncommitted.jsonl"),
        dumps={_topic_partition(path.stem): path.read_text() for path in sorted(root.glob("dump/*.txt"))},
    )


def truth_of(topic_partition: TopicPartition, record: LogRecord) -> Mapping[str, Any]:
    """A record in the form of `truth.jsonl`: bytes as base64, null as null."""
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": str(record.timestamp_type),
        "key": _base64(record.key),
        "value": _base64(record.value),
        "headers": [[header.key, _base64(header.value)] for header in record.headers],
    }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _topic_partition(name: str) -> TopicPartition:
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


def _read_offsets(path: Path) -> dict[TopicPartition, PartitionOffsets]:
    raw = json.loads(path.read_text(encoding="utf-8"))
    return {
        _topic_partition(name): PartitionOffsets(
            log_start_offset=offsets["log_start_offset"],
            high_watermark=offsets["high_watermark"],
            last_stable_offset=offsets["last_stable_offset"],
        )
        for name, offsets in raw.items()
    }


def _read_truth(path: Path) -> Truth | None:
    if not path.exists():
        return None
    records: dict[TopicPartition, list[Mapping[str, Any]]] = {}
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            record = json.loads(line)
            records.setdefault(TopicPartition(record["topic"], record["partition"]), []).append(record)
    return {topic_partition: tuple(found) for topic_partition, found in records.items()}
