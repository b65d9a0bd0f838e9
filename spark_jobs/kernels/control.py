"""What a control batch's first record says (facts §1.5): the twin of `protocol.control_record`."""

import numpy as np

from spark_jobs.kernels.columns import (
    NO_CONTROL_TYPE,
    NO_COORDINATOR_EPOCH,
    UNKNOWN_CONTROL_TYPE,
    UNREADABLE_CONTROL_TYPE,
    HeaderColumns,
)
from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.memory import Bytes, load_int16, load_int32
from spark_jobs.kernels.record import NONE, parse_record
from spark_jobs.protocol.control_record import ControlType, read_first_control_type, read_marker
from spark_jobs.protocol.errors import CorruptData
from spark_jobs.protocol.record_batch import CODEC_MASK, HEADER_SIZE

COMPRESSED_CONTROL_TYPE = -4
"""Left by the kernel for `resolve_compressed`: Kafka compresses no control batch, but could read one."""

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
    """Fills in, through the pure twin, what the kernel could not read."""
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
