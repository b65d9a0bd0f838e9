"""Checkpoint text files: version, number of entries, one entry per line (facts §1.10)."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from spark_jobs.protocol.errors import CorruptCheckpoint

T = TypeVar("T")

_VERSION = 0
_NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_LINE_END = re.compile(r"\r\n|\r|\n")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEntry:
    """The leader of `epoch` began to write at `start_offset`."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCheckpointEntry:
    """One partition's offset: recovery point, log start, high watermark or cleaner's position, by the file's name."""

    topic: str
    partition: int
    offset: int


def read_leader_epochs(data: bytes | memoryview, *, source: str = "<bytes>") -> tuple[EpochEntry, ...]:
    """The entries of a `leader-epoch-checkpoint` file."""
    return _read(data, 2, _epoch_entry, source)


def read_offsets(data: bytes | memoryview, *, source: str = "<bytes>") -> tuple[OffsetCheckpointEntry, ...]:
    """The entries of an offset checkpoint of a log directory."""
    return _read(data, 3, _offset_entry, source)


def write_leader_epochs(entries: Iterable[EpochEntry]) -> bytes:
    """The file of `entries`, in their order."""
    return _write(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def write_offsets(entries: Iterable[OffsetCheckpointEntry]) -> bytes:
    """The file of `entries`, in their order."""
    return _write(f"{entry.topic} {entry.partition} {entry.offset}" for entry in entries)


def _epoch_entry(epoch: str, start_offset: str) -> EpochEntry:
    return EpochEntry(epoch=_number(epoch, 32), start_offset=_number(start_offset, 64))


def _offset_entry(topic: str, partition: str, offset: str) -> OffsetCheckpointEntry:
    return OffsetCheckpointEntry(topic=topic, partition=_number(partition, 32), offset=_number(offset, 64))


def _number(text: str, bits: int) -> int:
    value = int(text) if _NUMBER.fullmatch(text) else None
    if value is None or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(text)
    return value


def _read(data: bytes | memoryview, fields: int, to_entry: Callable[..., T], source: str) -> tuple[T, ...]:
    lines = _lines(data, source)
    if len(lines) < 2:  # a broker takes a file without a count as one without entries
        _check_version(lines, source)
        return ()
    _check_version(lines, source)
    entries = tuple(
        _entry(line, index, fields, to_entry, source) for index, line in enumerate(lines[2:], start=3)
    )
    count = _entry(lines[1], 2, 1, lambda text: _number(text, 32), source)
    if count != len(entries):
        raise CorruptCheckpoint(
            source=source, position=len(data), expected=f"{count} entries", found=len(entries)
        )
    return entries


def _lines(data: bytes | memoryview, source: str) -> list[str]:
    try:
        lines = _LINE_END.split(bytes(data).decode())
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(
            source=source, position=error.start, expected="UTF-8 text", found=f"byte {data[error.start]:#04x}"
        ) from None
    return lines if lines[-1] else lines[:-1]


def _check_version(lines: list[str], source: str) -> None:
    for line in lines[:1]:
        version = _entry(line, 1, 1, lambda text: _number(text, 32), source)
        if version != _VERSION:
            raise CorruptCheckpoint(source=source, position=0, expected=f"version {_VERSION}", found=version)


def _entry(line: str, index: int, fields: int, to_entry: Callable[..., T], source: str) -> T:
    parts = _SPACES.split(line)
    try:
        if len(parts) != fields:
            raise ValueError(line)
        return to_entry(*parts)
    except ValueError:
        raise CorruptCheckpoint(
            source=source, position=index, expected=f"{fields} fields in line {index}", found=repr(line[:80])
        ) from None


def _write(lines: Iterable[str]) -> bytes:
    body = list(lines)
    return "".join(f"{line}\n" for line in (_VERSION, len(body), *body)).encode()
