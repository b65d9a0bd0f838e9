"""Columns into and out of the admission fold."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.memory import read_only


class BatchColumns(NamedTuple):
    """What the rules look at: header fields, and what a control batch's first record says.

    A `control_type` of 0 or 1 is a marker; a control batch with any other has none.
    """

    base_offset: npt.NDArray[np.int64]
    attributes: npt.NDArray[np.int16]
    last_offset_delta: npt.NDArray[np.int32]
    max_timestamp: npt.NDArray[np.int64]
    producer_id: npt.NDArray[np.int64]
    producer_epoch: npt.NDArray[np.int16]
    base_sequence: npt.NDArray[np.int32]
    record_count: npt.NDArray[np.int32]
    control_type: npt.NDArray[np.int16]
    coordinator_epoch: npt.NDArray[np.int32]

    @property
    def rows(self) -> int:
        return self.producer_id.size


class DecisionColumns(NamedTuple):
    """`protocol.decision.Decision` as columns; what was found is in the batch's own columns.

    `verdict` is the position in `VERDICTS`. An accepted marker with a `txn_first_offset` completed the
    transaction that began there; its own offset, the last of the transaction, is `base_offset`.
    """

    verdict: npt.NDArray[np.int8]
    base_offset: npt.NDArray[np.int64]
    last_offset: npt.NDArray[np.int64]
    expected_sequence: npt.NDArray[np.int32]
    expected_epoch: npt.NDArray[np.int16]
    log_append_time: npt.NDArray[np.int64]
    txn_first_offset: npt.NDArray[np.int64]


_BATCH_TYPES: tuple[npt.DTypeLike, ...] = (
    np.int64, np.int16, np.int32, np.int64, np.int64, np.int16, np.int32, np.int32, np.int16, np.int32,
)  # fmt: skip
_DECISION_TYPES: tuple[npt.DTypeLike, ...] = (
    np.int8, np.int64, np.int64, np.int32, np.int16, np.int64, np.int64,
)  # fmt: skip


def batch_columns(arrays: Iterable[npt.ArrayLike]) -> BatchColumns:
    """Arrays in the order of the fields, copied only if they are of another type: kernels see one type."""
    return BatchColumns._make(map(read_only, arrays, _BATCH_TYPES))


def batches_of(headers: HeaderColumns) -> BatchColumns:
    """The columns of a scan that the rules look at."""
    return batch_columns(getattr(headers, name) for name in BatchColumns._fields)


def allocate_decisions(rows: int) -> DecisionColumns:
    """Room for `rows` decisions; the values are undefined until a kernel writes them."""
    return DecisionColumns._make(np.empty(rows, dtype=kind) for kind in _DECISION_TYPES)
