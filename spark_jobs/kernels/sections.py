"""Where the decompressed records of batches stand, and what their headers say of them."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.protocol.record_batch import TIMESTAMP_TYPE_FLAG


class RecordSections(NamedTuple):
    """One row per batch: its records are the arena's bytes from `start` to `end`."""

    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    base_offset: npt.NDArray[np.int64]
    base_timestamp: npt.NDArray[np.int64]
    max_timestamp: npt.NDArray[np.int64]
    is_log_append_time: npt.NDArray[np.bool_]
    base_sequence: npt.NDArray[np.int32]
    record_count: npt.NDArray[np.int32]

    @property
    def rows(self) -> int:
        return self.start.size


def sections_of(
    headers: HeaderColumns, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> RecordSections:
    """The sections of v2 batches whose records were put from `start` to `end`; copies of the columns."""
    return RecordSections(
        start=start.copy(),
        end=end.copy(),
        base_offset=headers.base_offset.copy(),
        base_timestamp=headers.base_timestamp.copy(),
        max_timestamp=headers.max_timestamp.copy(),
        is_log_append_time=headers.attributes & TIMESTAMP_TYPE_FLAG != 0,
        base_sequence=headers.base_sequence.copy(),
        record_count=headers.record_count.copy(),
    )
