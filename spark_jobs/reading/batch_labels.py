"""What the numbers of batch headers mean: names of codecs, timestamp types and control types."""

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.record_batch import NO_SEQUENCE, TIMESTAMP_TYPE_FLAG, Codec, TimestampType
from spark_jobs.kafka.producers.sequence import MAX_SEQUENCE
from spark_jobs.kernels.columns import NO_CONTROL_TYPE, UNREADABLE_CONTROL_TYPE, HeaderColumns

CODECS = (*(codec.name.lower() for codec in Codec), "codec-5", "codec-6", "codec-7")
TIMESTAMP_TYPES = (TimestampType.NO_TIMESTAMP_TYPE, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
_CONTROL_NAMES = {NO_CONTROL_TYPE: "", UNREADABLE_CONTROL_TYPE: "UNREADABLE"} | {
    int(control_type): control_type.name for control_type in ControlType
}
LOWEST_CONTROL_TYPE = min(_CONTROL_NAMES)
CONTROL_TYPES = tuple(_CONTROL_NAMES[control_type] for control_type in sorted(_CONTROL_NAMES))
"""Names by control type, counted from the lowest."""


def timestamp_types(batches: HeaderColumns) -> npt.NDArray[np.int64]:
    log_append = (batches.attributes & TIMESTAMP_TYPE_FLAG) != 0
    return np.where(batches.magic == 0, 0, 1 + log_append)


def last_sequences(batches: HeaderColumns) -> npt.NDArray[np.int64]:
    """Sequence of each batch's last record as sent, with the wrap of facts §2.2; -1 without sequences."""
    last = batches.base_sequence.astype(np.int64) + batches.last_offset_delta
    wrapped = np.where(last > MAX_SEQUENCE, last - MAX_SEQUENCE - 1, last)
    return np.where(batches.base_sequence == NO_SEQUENCE, NO_SEQUENCE, wrapped)
