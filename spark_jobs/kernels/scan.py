"""Scans batch headers into columns (facts §1.2-1.3): the twin of `kafka.log.segment.scan`.

Memory is bounded by the capacity of a chunk, not by the buffer: `scan_chunk` stops when its columns are full,
and the next call continues there. Also here: batch boundaries without headers, and the check that batches
still match their rows.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.errors import BadCrc, BadLength, BadMagic, CorruptData, TornBatch, ZeroFilledTail
from spark_jobs.kafka.formats.control_record import ControlType, read_first_control_type, read_marker
from spark_jobs.kafka.formats.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
)
from spark_jobs.kernels.columns import (
    NO_CONTROL_TYPE,
    NO_COORDINATOR_EPOCH,
    UNKNOWN_CONTROL_TYPE,
    UNREADABLE_CONTROL_TYPE,
    HeaderColumns,
    allocate,
    concatenate,
)
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.crc import crc32, crc32c, library_address
from spark_jobs.kernels.memory import (
    Bytes,
    as_bytes,
    load_int8,
    load_int16,
    load_int32,
    load_int64,
    load_uint8,
    load_uint32,
)
from spark_jobs.kernels.record import NONE, parse_record

# The first record of a control batch (facts §1.5): the twin of `kafka.formats.control_record`.
COMPRESSED_CONTROL_TYPE = -4
"""Left for `resolve_compressed`: Kafka does not compress control batches, but can read such ones."""

_COMMIT, _LAST_TYPE = int(ControlType.COMMIT), int(max(ControlType))
_KEY_SIZE, _VALUE_SIZE = 4, 6


@helper
def read_control(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """(control type, coordinator epoch) of the control batch from `position` to `end`."""
    if load_int32(buffer, position + 57) == 0:
        return NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    if load_int16(buffer, position + 21) & CODEC_MASK:
        return COMPRESSED_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    start = position + HEADER_SIZE
    if load_int32(buffer, position + 57) < 0 or start == end:
        return UNREADABLE_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    record = parse_record(buffer, start, end)
    if record.problem != NONE or record.key_size < _KEY_SIZE or load_int16(buffer, record.key_start) < 0:
        return UNREADABLE_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    code = load_int16(buffer, record.key_start + 2)
    if not 0 <= code <= _LAST_TYPE:
        return UNKNOWN_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    if code > _COMMIT:
        return code, NO_COORDINATOR_EPOCH
    if record.value_size < _VALUE_SIZE or load_int16(buffer, record.value_start) < 0:
        return UNREADABLE_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    return code, load_int32(buffer, record.value_start + 2)


def resolve_compressed(buffer: Bytes, rows: HeaderColumns) -> None:
    """Reads compressed control batches with the pure twin."""
    for row in np.flatnonzero(rows.control_type == COMPRESSED_CONTROL_TYPE):
        start, size = rows.position[row], rows.size[row]
        batch = buffer[start : start + size].tobytes()
        rows.control_type[row], rows.coordinator_epoch[row] = _read_compressed(batch)


def _read_compressed(batch: bytes) -> tuple[int, int]:
    try:
        marker, control_type = read_marker(batch), read_first_control_type(batch)
    except CorruptData:
        return UNREADABLE_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    if control_type is None:
        return NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    return int(control_type), NO_COORDINATOR_EPOCH if marker is None else marker.coordinator_epoch


class StopReason(IntEnum):
    """What is at the position where a scan stopped; the errors are those of `kafka.log.segment`."""

    END = 0
    """Nothing: the last batch ended exactly there."""
    FULL = 1
    """A whole batch for which the columns had no room: call again from there."""
    TORN = 2
    """Less than a batch. In a window of a larger object it is the batch that the next window completes."""
    BAD_LENGTH = 3
    ZERO_FILLED = 4
    BAD_MAGIC = 5
    BAD_CRC = 6


ERROR_OF: dict[StopReason, type[CorruptData]] = {
    StopReason.TORN: TornBatch,
    StopReason.BAD_LENGTH: BadLength,
    StopReason.ZERO_FILLED: ZeroFilledTail,
    StopReason.BAD_MAGIC: BadMagic,
    StopReason.BAD_CRC: BadCrc,
}
"""The error that the pure twin raises; `END` and `FULL` are no errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStop:
    """Where a scan stopped, and why; everything before `position` is whole batches."""

    position: int
    reason: StopReason


GO_ON = -1
"""Inside kernels only: no reason to stop."""
END, FULL, TORN = int(StopReason.END), int(StopReason.FULL), int(StopReason.TORN)
BAD_LENGTH, ZERO_FILLED = int(StopReason.BAD_LENGTH), int(StopReason.ZERO_FILLED)
BAD_MAGIC, BAD_CRC = int(StopReason.BAD_MAGIC), int(StopReason.BAD_CRC)


_PREFIX_SIZE = 17
"""Offset, size, leader epoch or CRC, and the magic byte that decides the format."""
_SMALLEST_SIZE = 14
SMALLEST_ENTRY = LOG_OVERHEAD + _SMALLEST_SIZE
"""Bytes of the shortest legacy message: no header needs fewer."""
_LEGACY_CRC_START = 16
_LEGACY_V1_SIZE = 22


@helper
def _is_zero(buffer: Bytes, start: int, end: int) -> bool:
    while start < end and load_uint8(buffer, start) == 0:
        start += 1
    return start == end


@helper
def check_entry(buffer: Bytes, position: int, end: int, check_magic: bool) -> tuple[int, int]:
    """Whether a whole entry is at `position`: (`GO_ON`, or why not; the bytes that it claims to have).

    The size is read only once: a mapped file may change at any time, also between check and use.
    """
    if position >= end:
        return END, 0
    if end - position <= _PREFIX_SIZE:
        return TORN, 0
    size = load_int32(buffer, position + 8)
    if size < _SMALLEST_SIZE:
        is_zero = size == 0 and _is_zero(buffer, position, end)
        return ZERO_FILLED if is_zero else BAD_LENGTH, LOG_OVERHEAD + size
    return _check_whole(buffer, position, end, size, check_magic), LOG_OVERHEAD + size


@helper
def _check_whole(buffer: Bytes, position: int, end: int, size: int, check_magic: bool) -> int:
    if size > end - position - LOG_OVERHEAD:
        return TORN
    magic = load_int8(buffer, position + 16)
    if (size < _LEGACY_V1_SIZE and magic == 1) or (size < HEADER_SIZE - LOG_OVERHEAD and not 0 <= magic <= 1):
        return BAD_LENGTH
    if magic < 0 or (check_magic and magic > MAGIC_V2):
        return BAD_MAGIC
    return GO_ON


@helper
def has_right_crc(library: int, buffer: Bytes, position: int, size: int) -> bool:
    """Whether the entry's bytes match its checksum."""
    if load_int8(buffer, position + 16) < MAGIC_V2:
        found = crc32(buffer, position + _LEGACY_CRC_START, size - _LEGACY_CRC_START)
        return found == load_uint32(buffer, position + 12)
    return crc32c(library, buffer, position + CRC_START, size - CRC_START) == load_uint32(
        buffer, position + 17
    )


@helper
def write_entry(rows: HeaderColumns, row: int, buffer: Bytes, position: int, size: int, crc_ok: bool) -> None:
    """The entry at `position` as row `row`."""
    magic = load_int8(buffer, position + 16)
    control_type, coordinator_epoch = NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    if magic >= MAGIC_V2 and load_int16(buffer, position + 21) & CONTROL_FLAG:
        control_type, coordinator_epoch = read_control(buffer, position, position + size)
    # From here on only the format branches: otherwise numba keeps its reference counts.
    rows.position[row] = position
    rows.size[row] = size
    rows.base_offset[row] = load_int64(buffer, position)
    rows.magic[row] = magic
    rows.crc_ok[row] = crc_ok
    rows.control_type[row] = control_type
    rows.coordinator_epoch[row] = coordinator_epoch
    if magic < MAGIC_V2:
        _write_legacy(rows, row, buffer, position, magic)
    else:
        _write_batch(rows, row, buffer, position)


@helper
def _write_batch(rows: HeaderColumns, row: int, buffer: Bytes, position: int) -> None:
    rows.partition_leader_epoch[row] = load_int32(buffer, position + 12)
    rows.crc[row] = load_uint32(buffer, position + 17)
    rows.attributes[row] = load_int16(buffer, position + 21)
    rows.last_offset_delta[row] = load_int32(buffer, position + 23)
    rows.base_timestamp[row] = load_int64(buffer, position + 27)
    rows.max_timestamp[row] = load_int64(buffer, position + 35)
    rows.producer_id[row] = load_int64(buffer, position + 43)
    rows.producer_epoch[row] = load_int16(buffer, position + 51)
    rows.base_sequence[row] = load_int32(buffer, position + 53)
    rows.record_count[row] = load_int32(buffer, position + 57)


@helper
def _write_legacy(rows: HeaderColumns, row: int, buffer: Bytes, position: int, magic: int) -> None:
    timestamp = load_int64(buffer, position + 18) if magic == 1 else -1
    rows.partition_leader_epoch[row] = -1
    rows.crc[row] = load_uint32(buffer, position + 12)
    rows.attributes[row] = load_int8(buffer, position + 17)
    rows.last_offset_delta[row] = 0
    rows.base_timestamp[row] = timestamp
    rows.max_timestamp[row] = timestamp
    rows.producer_id[row] = -1
    rows.producer_epoch[row] = -1
    rows.base_sequence[row] = -1
    rows.record_count[row] = -1


FIRST_CAPACITY, LARGEST_CAPACITY = 1 << 12, 1 << 20
"""Rows of the first and of later chunks: small files stay cheap, big ones need few chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderScan:
    """The headers found, and where and why the scan stopped."""

    columns: HeaderColumns
    stop: ScanStop


@kernel
def _scan(
    buffer: Bytes,
    start: int,
    end: int,
    library: int,
    check_crc: bool,
    stop_at_bad_crc: bool,
    check_magic: bool,
    rows: HeaderColumns,
) -> tuple[int, int, int]:
    """(rows written, position, why it stopped)."""
    position, row, capacity = start, 0, rows.position.size
    while True:
        reason, size = check_entry(buffer, position, end, check_magic)
        if reason == GO_ON and row == capacity:
            reason = FULL
        if reason != GO_ON:
            return row, position, reason
        crc_ok = not check_crc or has_right_crc(library, buffer, position, size)
        if stop_at_bad_crc and not crc_ok:
            return row, position, BAD_CRC
        write_entry(rows, row, buffer, position, size, crc_ok)
        row += 1
        position += size


def scan_chunk(
    buffer: Any,
    *,
    start: int = 0,
    end: int | None = None,
    capacity: int,
    check_crc: bool = True,
    stop_at_bad_crc: bool = True,
    check_magic: bool = True,
) -> HeaderScan:
    """At most `capacity` headers of `buffer[start:end]`; `FULL` says that there is at least one more.

    A wrong checksum ends the scan there, as a broker's recovery does; with `stop_at_bad_crc` false it is only
    marked in `crc_ok`, and the scan continues after the length that the damaged header claims.
    """
    data = as_bytes(buffer)
    stop = data.size if end is None else end
    rows = allocate(min(capacity, max(stop - start, 0) // SMALLEST_ENTRY + 1))
    count, position, reason = _scan(
        data,
        start,
        stop,
        library_address(),
        check_crc,
        stop_at_bad_crc,
        check_magic,
        rows,
    )
    found = rows.part(0, count)
    resolve_compressed(data, found)
    return HeaderScan(columns=found, stop=ScanStop(position=position, reason=StopReason(reason)))


def scan_headers(
    buffer: Any,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    stop_at_bad_crc: bool = True,
    check_magic: bool = True,
) -> HeaderScan:
    """All headers of `buffer[start:end]`, as `scan_chunk` finds them."""
    parts: list[HeaderColumns] = []
    stop, capacity = ScanStop(position=start, reason=StopReason.FULL), FIRST_CAPACITY
    while stop.reason is StopReason.FULL:
        chunk = scan_chunk(
            buffer,
            start=stop.position,
            end=end,
            capacity=capacity,
            check_crc=check_crc,
            stop_at_bad_crc=stop_at_bad_crc,
            check_magic=check_magic,
        )
        parts.append(chunk.columns)
        stop, capacity = chunk.stop, min(capacity * 8, LARGEST_CAPACITY)
    return HeaderScan(columns=concatenate(parts), stop=stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundaries:
    """Positions of batches, the first at the start of the walk, and where the walk stopped."""

    positions: npt.NDArray[np.int64]
    stop: ScanStop


@kernel
def _walk(
    buffer: Bytes, start: int, end: int, every: int, positions: npt.NDArray[np.int64]
) -> tuple[int, int, int]:
    """(boundaries written, position, why it stopped)."""
    position, count, wanted = start, 0, start
    while True:
        reason, size = check_entry(buffer, position, end, True)
        if reason != GO_ON:
            return count, position, reason
        if position >= wanted:
            positions[count] = position
            count += 1
            wanted = position + every
        position += size


def walk_boundaries(buffer: Any, *, start: int = 0, end: int | None = None, every: int) -> Boundaries:
    """Boundaries of `buffer[start:end]` that are at least `every` bytes apart; only lengths are read.

    `start` is a boundary. Each range from one boundary to the next, and from the last one to the stop, holds
    whole batches and can be scanned on its own.
    """
    data = as_bytes(buffer)
    last = data.size if end is None else end
    positions = np.empty(max(last - start, 0) // max(every, SMALLEST_ENTRY) + 1, dtype=np.int64)
    count, position, reason = _walk(data, start, last, every, positions)
    return Boundaries(
        positions=positions[:count], stop=ScanStop(position=position, reason=StopReason(reason))
    )


@kernel
def _check(
    buffer: Bytes,
    library: int,
    position: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    magic: npt.NDArray[np.int8],
    crc: npt.NDArray[np.uint32],
    intact: npt.NDArray[np.bool_],
) -> None:
    for row in range(position.size):
        at, length = position[row], size[row]
        intact[row] = False
        if at < 0 or length < SMALLEST_ENTRY or at + length > buffer.size:
            continue
        is_batch = magic[row] >= MAGIC_V2
        if load_int32(buffer, at + 8) + LOG_OVERHEAD != length or load_int8(buffer, at + 16) != magic[row]:
            continue
        if is_batch and length < HEADER_SIZE:
            continue
        written = load_uint32(buffer, at + 17) if is_batch else load_uint32(buffer, at + 12)
        intact[row] = written == crc[row] and has_right_crc(library, buffer, at, length)


def find_intact(buffer: Any, headers: HeaderColumns) -> npt.NDArray[np.bool_]:
    """Per row of `headers`: whether `buffer` still has a batch of that format, size and checksum there."""
    intact = np.empty(headers.rows, dtype=np.bool_)
    _check(
        as_bytes(buffer),
        library_address(),
        headers.position,
        headers.size,
        headers.magic,
        headers.crc,
        intact,
    )
    return intact
