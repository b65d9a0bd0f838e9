"""Text files of a log directory: checkpoints, `partition.metadata`, `meta.properties` (facts §1.10-1.11)."""

import base64
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from spark_jobs.kafka.errors import CorruptCheckpoint

T = TypeVar("T")

_VERSION = 0
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_INT32, _INT64 = 2**31, 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEntry:
    """The leader of `epoch` began to write at `start_offset`."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCheckpointEntry:
    """One partition's offset: a recovery point, log start or high watermark, as the file's name says."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    position: int
    text: str
    source: str

    def fail(self, expected: object) -> CorruptCheckpoint:
        found = repr(self.text[:80])
        return CorruptCheckpoint(source=self.source, position=self.position, expected=expected, found=found)

    def fields(self, count: int) -> list[str]:
        fields = self.text.split()
        if len(fields) != count or self.text[:1].isspace():
            raise self.fail(f"{count} fields")
        return fields

    def number(self, text: str, bound: int) -> int:
        value = int(text) if _NUMBER.fullmatch(text) else bound
        if not -bound <= value < bound:
            raise self.fail(f"a number of {bound.bit_length()} bits")
        return value


def read_leader_epochs(data: bytes | memoryview, *, source: str = "<bytes>") -> tuple[EpochEntry, ...]:
    """The entries of a `leader-epoch-checkpoint` file."""
    return _read(data, _epoch_entry, source)


def read_offsets(data: bytes | memoryview, *, source: str = "<bytes>") -> tuple[OffsetCheckpointEntry, ...]:
    """The entries of an offset checkpoint of a log directory."""
    return _read(data, _offset_entry, source)


def _epoch_entry(line: _Line) -> EpochEntry:
    epoch, start_offset = line.fields(2)
    return EpochEntry(epoch=line.number(epoch, _INT32), start_offset=line.number(start_offset, _INT64))


def _offset_entry(line: _Line) -> OffsetCheckpointEntry:
    topic, partition, offset = line.fields(3)
    return OffsetCheckpointEntry(
        topic=topic, partition=line.number(partition, _INT32), offset=line.number(offset, _INT64)
    )


def _read(data: bytes | memoryview, to_entry: Callable[[_Line], T], source: str) -> tuple[T, ...]:
    """A file that ends before its count has no entries: a broker accepts it."""
    lines = list(_lines(data, source))
    for version in lines[:1]:
        if version.number(version.text, _INT32) != _VERSION:
            raise version.fail(f"version {_VERSION}")
    entries = tuple(to_entry(line) for line in lines[2:])
    for count in lines[1:2]:
        if count.number(count.text, _INT32) != len(entries):
            raise count.fail(f"the number of entries, {len(entries)}")
    return entries


def _lines(data: bytes | memoryview, source: str) -> Iterator[_Line]:
    position = 0
    for line in bytes(data).splitlines(keepends=True):
        yield _Line(position=position, text=line.rstrip(b"\r\n").decode(errors="replace"), source=source)
        position += len(line)


def write_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """The file of `entries`, in their order."""
    return _write(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def write_offsets(entries: Iterable[OffsetCheckpointEntry]) -> bytes:
    """The file of `entries`, in their order."""
    return _write(f"{entry.topic} {entry.partition} {entry.offset}" for entry in entries)


def _write(lines: Iterable[str]) -> bytes:
    body = list(lines)
    return "".join(f"{line}\n" for line in (_VERSION, len(body), *body)).encode()


# `partition.metadata`: which topic id a partition's directory belongs to (facts §1.10).
CURRENT_VERSION = 0
_ZERO_UUID = bytes(16)
_FORMAT = re.compile(
    r"version:\s+(?P<version>[0-9]{1,9})\r?\n" r"topic_id:\s+(?P<topic_id>[A-Za-z0-9_-]{22})(==)?(\r?\n.*)?",
    re.ASCII | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """`topic_id` is a UUID in Kafka's spelling: 22 characters of unpadded URL-safe base64."""

    version: int = CURRENT_VERSION
    topic_id: str


def read_partition_metadata(data: bytes | memoryview, *, source: str = "<bytes>") -> PartitionMetadata:
    """The file's content; later versions are read as version 0, the zero UUID is refused."""
    text = bytes(data).decode(errors="replace")
    match = _FORMAT.fullmatch(text)
    if match is None:
        raise CorruptCheckpoint(
            source=source, position=0, expected="version and topic_id", found=repr(text[:80])
        )
    topic_id = match["topic_id"]
    if base64.urlsafe_b64decode(topic_id + "==") == _ZERO_UUID:
        raise CorruptCheckpoint(
            source=source, position=match.start("topic_id"), expected="a topic id", found="the zero UUID"
        )
    return PartitionMetadata(version=int(match["version"]), topic_id=topic_id)


def write_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """The file's content; no newline at the end."""
    return f"version: {metadata.version}\ntopic_id: {metadata.topic_id}".encode()


# Which leader epoch wrote from which offset on: the cache behind `leader-epoch-checkpoint` (facts §1.11).
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpochs:
    """Entries with rising epochs and start offsets; every change gives a new value."""

    entries: tuple[EpochEntry, ...] = ()

    @property
    def latest_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> "LeaderEpochs":
        """`epoch` writes from `start_offset` on; contradicting entries at the tail are removed."""
        if self.entries and self.entries[-1].epoch == epoch and self.entries[-1].start_offset <= start_offset:
            return self
        kept = list(self.entries)
        while kept and (kept[-1].epoch >= epoch or kept[-1].start_offset >= start_offset):
            kept.pop()
        return LeaderEpochs(entries=(*kept, EpochEntry(epoch=epoch, start_offset=start_offset)))

    def truncate_from_end(self, end_offset: int) -> "LeaderEpochs":
        """Remove epochs that begin at or after `end_offset`."""
        return LeaderEpochs(entries=tuple(e for e in self.entries if e.start_offset < end_offset))

    def truncate_from_start(self, start_offset: int) -> "LeaderEpochs":
        """Remove what is before `start_offset`; the epoch that spans it then begins there."""
        dropped = [entry for entry in self.entries if entry.start_offset <= start_offset]
        if not dropped:
            return self
        first = EpochEntry(epoch=dropped[-1].epoch, start_offset=start_offset)
        return LeaderEpochs(entries=(first, *self.entries[len(dropped) :]))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest known epoch ≤ `epoch`, where the next one begins); both -1 if unknown.

        A broker's answer to OffsetForLeaderEpoch; only tests ask, in place of a broker.
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest_epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = next(entry for entry in self.entries if entry.epoch > epoch)
        floors = [entry.epoch for entry in self.entries if entry.epoch <= epoch]
        return (floors[-1] if floors else epoch), higher.start_offset


# `meta.properties` of a log directory: which broker and cluster it belongs to (facts §1.10).
CLUSTER_ID = "cluster.id"
_COMMENTS = ("#", "!")


def read_properties(data: bytes | memoryview) -> dict[str, str]:
    """Lines of key=value as Java's Properties writes them; a line without '=' is a key without a value."""
    lines = (line.strip() for line in bytes(data).decode(errors="replace").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(_COMMENTS))
    return {key.strip(): value.strip().replace("\\", "") for key, _, value in pairs}


def read_cluster_id(data: bytes | memoryview) -> str:
    """The cluster's id; empty where the file has none, as those of the oldest brokers."""
    return read_properties(data).get(CLUSTER_ID, "")
