"""One entry of a segment inside kernels: is it whole, what does its header say, does its checksum hold."""

from spark_jobs.kernels.columns import NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH, HeaderColumns
from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.control import read_control
from spark_jobs.kernels.crc import crc32, crc32c
from spark_jobs.kernels.memory import (
    Bytes,
    load_int8,
    load_int16,
    load_int32,
    load_int64,
    load_uint8,
    load_uint32,
)
from spark_jobs.kernels.stop import BAD_LENGTH, BAD_MAGIC, END, GO_ON, TORN, ZERO_FILLED
from spark_jobs.protocol.record_batch import CONTROL_FLAG, CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2

_PREFIX_SIZE = 17
"""Offset, size, leader epoch or CRC, and the magic byte that says how to continue."""
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

    The claim is read once: what is mapped may change at any time, and must not after it was checked.
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
    """Whether the entry's bytes have the checksum that it carries."""
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
    # Beyond this line nothing branches but the format: numba drops its reference counts only then.
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
