"""A segment's index files: `.txnindex` read and written, `.index` and `.timeindex` read (facts §1.9-1.10)."""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

from spark_jobs.kafka.errors import CorruptIndex, CorruptTxnIndex

_ENTRY = Struct(">b x q q q q")
"""A broker writes the version as an int16 and reads back only its first byte."""
_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTxn:
    """An aborted transaction that had data, as a `.txnindex` file lists it; `last_offset` is its marker's.

    `last_stable_offset` may differ between replicas: never compare it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def read_txn_index(
    data: bytes | memoryview, *, base_offset: int | None = None, source: str = "<bytes>"
) -> tuple[AbortedTxn, ...]:
    """The entries in order; a partial last one is ignored, one that ends before `base_offset` is corrupt."""
    view = memoryview(data)
    whole = view[: len(view) - len(view) % _ENTRY.size]
    entries = []
    for index, (version, *fields) in enumerate(_ENTRY.iter_unpack(whole)):
        position = index * _ENTRY.size
        if version > _VERSION:
            raise _corrupt(source, position, f"version {_VERSION}", version)
        entry = AbortedTxn(
            producer_id=fields[0], first_offset=fields[1], last_offset=fields[2], last_stable_offset=fields[3]
        )
        if base_offset is not None and entry.last_offset < base_offset:
            raise _corrupt(source, position, f"a last offset of {base_offset} or more", entry.last_offset)
        entries.append(entry)
    return tuple(entries)


def _corrupt(source: str, position: int, expected: object, found: object) -> CorruptTxnIndex:
    return CorruptTxnIndex(source=source, position=position, expected=expected, found=found)


def write_txn_index(entries: Iterable[AbortedTxn]) -> bytes:
    """The file of `entries`, in their order."""
    return b"".join(
        _ENTRY.pack(
            _VERSION, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset
        )
        for entry in entries
    )


# `.index` and `.timeindex` files, read only because they follow from their segment (facts §1.10).
_OFFSET_ENTRY = Struct(">ii")  # last offset of a batch relative to the segment's base offset, its position
OFFSET_ENTRY_BYTES = _OFFSET_ENTRY.size
_TIME_ENTRY = Struct(">qi")  # timestamp, relative offset


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPosition:
    """The batch whose last offset is `offset` begins at byte `position` of its segment."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampOffset:
    """`timestamp` is the largest up to and including the batch that holds `offset`."""

    timestamp: int
    offset: int


def read_offset_index(
    data: bytes | memoryview, *, base_offset: int, source: str = "<bytes>"
) -> tuple[OffsetPosition, ...]:
    """The entries in order, without the zeros that a broker preallocates."""
    entries = _read(data, _OFFSET_ENTRY, source)
    _check_increasing([relative for relative, _ in entries], _OFFSET_ENTRY.size, source)
    return tuple(
        OffsetPosition(offset=base_offset + relative, position=position) for relative, position in entries
    )


def read_time_index(
    data: bytes | memoryview, *, base_offset: int, source: str = "<bytes>"
) -> tuple[TimestampOffset, ...]:
    """The entries in order, without the zeros that a broker preallocates."""
    entries = _read(data, _TIME_ENTRY, source)
    _check_increasing([timestamp for timestamp, _ in entries], _TIME_ENTRY.size, source)
    return tuple(
        TimestampOffset(timestamp=timestamp, offset=base_offset + relative) for timestamp, relative in entries
    )


def _read(data: bytes | memoryview, entry: Struct, source: str) -> list[tuple[int, int]]:
    if len(data) % entry.size:
        raise CorruptIndex(
            source=source,
            position=0,
            expected=f"a multiple of {entry.size} bytes",
            found=f"{len(data)} bytes",
        )
    entries = [(first, second) for first, second in entry.iter_unpack(data)]
    while entries and entries[-1] == (0, 0):
        entries.pop()
    return entries


def _check_increasing(keys: list[int], size: int, source: str) -> None:
    for index in range(1, len(keys)):
        if keys[index] <= keys[index - 1]:
            raise CorruptIndex(
                source=source,
                position=index * size,
                expected=f"more than {keys[index - 1]}",
                found=keys[index],
            )
