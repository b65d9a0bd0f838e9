"""Writes accepted batches as bytes of a log, with their offset and leader epoch, and builds markers.

The checksum covers neither offset nor epoch (facts §1.3): everything else stays as it was sent. Twin of
`kafka.formats.record_batch` and `kafka.formats.control_record`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.control_record import ControlType, write_marker
from spark_jobs.kafka.formats.record_batch import CRC_START
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.crc import crc32c, library_address
from spark_jobs.kernels.memory import Bytes, as_bytes, copy_bytes

Int64s = npt.NDArray[np.int64]

MARKER_SIZE = 78
"""Bytes of a marker's batch (facts §1.5)."""
_TEMPLATE = np.frombuffer(
    write_marker(
        base_offset=0,
        partition_leader_epoch=0,
        timestamp=0,
        producer_id=0,
        producer_epoch=0,
        control_type=ControlType.ABORT,
        coordinator_epoch=0,
    ),
    dtype=np.uint8,
)
_FIELDS = (
    ("max_timestamp", 27, ">i8"),
    ("max_timestamp", 35, ">i8"),
    ("producer_id", 43, ">i8"),
    ("producer_epoch", 51, ">i2"),
    ("control_type", 68, ">i2"),
    ("coordinator_epoch", 73, ">i4"),
)
"""The fields that differ between markers, and their positions."""


@helper
def _store(target: Bytes, at: int, number: int, width: int) -> None:
    for byte in range(width):
        target[at + byte] = number >> (8 * (width - 1 - byte)) & 0xFF


@kernel
def _place(
    target: Bytes,
    at: Int64s,
    source: Bytes,
    position: Int64s,
    size: Int64s,
    base_offset: Int64s,
    leader_epoch: int,
) -> None:
    for row in range(size.size):
        copy_bytes(target, at[row], source, position[row], size[row])
        _store(target, at[row], base_offset[row], 8)
        _store(target, at[row] + 12, leader_epoch, 4)


@kernel
def _seal(batches: Bytes, library: int, size: int) -> None:
    for at in range(0, batches.size, size):
        crc = crc32c(library, batches, at + CRC_START, size - CRC_START)
        _store(batches, at + CRC_START - 4, crc, 4)


def place_batches(target: Bytes, at: Int64s, source: Any, headers: HeaderColumns, leader_epoch: int) -> None:
    """Copies each batch from `source` to its position in `target`, and sets offset and leader epoch."""
    source = as_bytes(source)
    ends, places = headers.position + headers.size, at + headers.size
    if headers.rows and (
        headers.position.min() < 0 or ends.max() > source.size or places.max() > target.size
    ):
        raise IndexError("a batch is outside of the bytes that were read, or of those to write")
    _place(target, at, source, headers.position, headers.size, headers.base_offset, leader_epoch)


def marker_batches(columns: dict[str, npt.NDArray[Any]]) -> Bytes:
    """Markers in a row, at offset and leader epoch 0, from columns named as in `HeaderColumns`."""
    batches = np.tile(_TEMPLATE, (columns["producer_id"].size, 1))
    for name, start, kind in _FIELDS:
        width = int(kind[-1])
        batches[:, start : start + width] = columns[name].astype(kind).view(np.uint8).reshape(-1, width)
    sealed = batches.reshape(-1)
    _seal(sealed, library_address(), MARKER_SIZE)
    return sealed


def marker_checksums(columns: dict[str, npt.NDArray[Any]]) -> npt.NDArray[np.uint32]:
    """The checksum of each of them."""
    batches = marker_batches(columns).reshape(-1, MARKER_SIZE)
    found: npt.NDArray[np.uint32] = (
        np.ascontiguousarray(batches[:, CRC_START - 4 : CRC_START]).view(">u4").astype(np.uint32).reshape(-1)
    )
    return found
