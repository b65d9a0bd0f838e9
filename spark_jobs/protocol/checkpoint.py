"""Checkpoint text files: version, number of entries, one entry per line (facts §1.10)."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from spark_jobs.protocol.errors import CorruptCheckpoint

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
    """A file that ends before its count has no entries: a broker does not mind."""
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
