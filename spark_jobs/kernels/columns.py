"""Batch headers as columns: one array per field, one row per batch.

A `NamedTuple`, because numba reads its fields by name and mutates its arrays in place.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.control_record import ControlType

UNKNOWN_CONTROL_TYPE = int(ControlType.UNKNOWN)
NO_CONTROL_TYPE = -2
"""A data batch, or a control batch whose records compaction has removed."""
UNREADABLE_CONTROL_TYPE = -3
"""A control batch whose first record is no control record."""
NO_COORDINATOR_EPOCH = -1


class HeaderColumns(NamedTuple):
    """The fields of facts §1.3 and the content of a control batch's first record (facts §1.5).

    A message of magic 0 or 1 is a row too: fields that its format lacks are -1.
    """

    position: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    base_offset: npt.NDArray[np.int64]
    partition_leader_epoch: npt.NDArray[np.int32]
    magic: npt.NDArray[np.int8]
    crc: npt.NDArray[np.uint32]
    crc_ok: npt.NDArray[np.bool_]
    attributes: npt.NDArray[np.int16]
    last_offset_delta: npt.NDArray[np.int32]
    base_timestamp: npt.NDArray[np.int64]
    max_timestamp: npt.NDArray[np.int64]
    producer_id: npt.NDArray[np.int64]
    producer_epoch: npt.NDArray[np.int16]
    base_sequence: npt.NDArray[np.int32]
    record_count: npt.NDArray[np.int32]
    control_type: npt.NDArray[np.int16]
    coordinator_epoch: npt.NDArray[np.int32]

    @property
    def rows(self) -> int:
        return self.position.size

    @property
    def scanned_bytes(self) -> int:
        """Where a scan ended: behind the last whole batch."""
        return int(self.position[-1] + self.size[-1]) if self.rows else 0

    @property
    def valid_bytes(self) -> int:
        """What an unclean recovery would keep (facts §6.1)."""
        bad = np.flatnonzero(~self.crc_ok)
        return int(self.position[bad[0]]) if bad.size else self.scanned_bytes

    def part(self, start: int, end: int) -> "HeaderColumns":
        """Rows `start` to `end` without a copy."""
        return _columns(column[start:end] for column in self)

    def pick(self, rows: npt.NDArray[Any]) -> "HeaderColumns":
        """The rows of a mask, or of indexes in their order; a copy."""
        return _columns(column[rows] for column in self)


_TYPES: tuple[npt.DTypeLike, ...] = (
    np.int64, np.int64, np.int64, np.int32, np.int8, np.uint32, np.bool_, np.int16, np.int32,
    np.int64, np.int64, np.int64, np.int16, np.int32, np.int32, np.int16, np.int32,
)  # fmt: skip


def _columns(arrays: Iterable[npt.NDArray[Any]]) -> HeaderColumns:
    return HeaderColumns._make(arrays)


def allocate(rows: int) -> HeaderColumns:
    """Room for `rows` headers; the values are undefined until a kernel writes them."""
    return _columns(np.empty(rows, dtype=kind) for kind in _TYPES)


def concatenate(parts: Sequence[HeaderColumns]) -> HeaderColumns:
    """All rows of `parts`, in order."""
    if len(parts) == 1:
        return parts[0]
    return _columns(np.concatenate(columns) for columns in zip(*parts, strict=True))
