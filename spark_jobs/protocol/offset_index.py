"""`.index` and `.timeindex` files, read only because they follow from their segment (facts §1.10)."""

from dataclasses import dataclass
from struct import Struct

from spark_jobs.protocol.errors import CorruptIndex

_OFFSET_ENTRY = Struct(">ii")  # last offset of a batch relative to the segment's base offset, its position
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
