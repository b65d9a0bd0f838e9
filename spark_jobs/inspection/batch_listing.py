"""One line per batch of a segment: the columns of the listing, for people and for machines."""

import numpy as np
import numpy.typing as npt

from spark_jobs.inspection.rows import Column, label, number, timestamp
from spark_jobs.kernels.columns import NO_CONTROL_TYPE, UNREADABLE_CONTROL_TYPE, HeaderColumns
from spark_jobs.protocol.control_record import ControlType
from spark_jobs.protocol.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    Codec,
    TimestampType,
)
from spark_jobs.protocol.sequence import MAX_SEQUENCE

CODECS = (*(codec.name.lower() for codec in Codec), "codec-5", "codec-6", "codec-7")
_TIMESTAMP_TYPES = (TimestampType.NO_TIMESTAMP_TYPE, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
_FLAG = ("no", "yes")
_CONTROL_NAMES = {NO_CONTROL_TYPE: "", UNREADABLE_CONTROL_TYPE: "UNREADABLE"} | {
    int(control_type): control_type.name for control_type in ControlType
}
_LOWEST = min(_CONTROL_NAMES)
_CONTROL_TYPES = tuple(_CONTROL_NAMES[control_type] for control_type in sorted(_CONTROL_NAMES))
"""Names by control type, counted from the lowest."""


def all_fields(batches: HeaderColumns) -> tuple[Column, ...]:
    """Everything that a header says and what follows from it, under Kafka's names."""
    attributes = batches.attributes
    horizon = np.where((attributes & DELETE_HORIZON_FLAG) != 0, batches.base_timestamp, -1)
    return (
        number("position", batches.position),
        number("size", batches.size),
        number("magic", batches.magic),
        number("base_offset", batches.base_offset),
        number("last_offset", batches.base_offset + batches.last_offset_delta),
        number("record_count", batches.record_count, null=-1),
        label("codec", attributes & CODEC_MASK, CODECS),
        label("timestamp_type", _timestamp_types(batches), _TIMESTAMP_TYPES),
        number("base_timestamp", batches.base_timestamp),
        number("max_timestamp", batches.max_timestamp),
        number("delete_horizon", horizon, null=-1),
        number("partition_leader_epoch", batches.partition_leader_epoch),
        number("producer_id", batches.producer_id),
        number("producer_epoch", batches.producer_epoch),
        number("base_sequence", batches.base_sequence),
        number("last_sequence", last_sequences(batches)),
        label("is_transactional", (attributes & TRANSACTIONAL_FLAG) != 0, _FLAG),
        label("is_control", (attributes & CONTROL_FLAG) != 0, _FLAG),
        label("control_type", batches.control_type - _LOWEST, _CONTROL_TYPES),
        number("coordinator_epoch", batches.coordinator_epoch),
        number("crc", batches.crc),
        label("crc_ok", batches.crc_ok, _FLAG),
    )


def reading_fields(batches: HeaderColumns) -> tuple[Column, ...]:
    """What fits on a line and a reader looks for first."""
    control = (batches.attributes & CONTROL_FLAG) != 0
    transactional = (batches.attributes & TRANSACTIONAL_FLAG) != 0
    what = np.where(control, batches.control_type - _LOWEST, len(_CONTROL_TYPES) + transactional)
    return (
        number("position", batches.position),
        number("offset", batches.base_offset),
        number("last", batches.base_offset + batches.last_offset_delta),
        number("records", batches.record_count, null=-1),
        number("bytes", batches.size),
        label("codec", batches.attributes & CODEC_MASK, CODECS),
        timestamp("max timestamp", batches.max_timestamp),
        number("producer", batches.producer_id, null=-1),
        number("epoch", batches.producer_epoch, null=-1),
        number("sequence", batches.base_sequence, null=-1),
        number("last", last_sequences(batches), null=-1),
        label("what", what, (*_CONTROL_TYPES, "", "transactional")),
        label("crc", batches.crc_ok, ("WRONG", "ok")),
    )


def _timestamp_types(batches: HeaderColumns) -> npt.NDArray[np.int64]:
    log_append = (batches.attributes & TIMESTAMP_TYPE_FLAG) != 0
    return np.where(batches.magic == 0, 0, 1 + log_append)


def last_sequences(batches: HeaderColumns) -> npt.NDArray[np.int64]:
    """Sequence of each batch's last record as sent, with the wrap of facts §2.2; -1 without sequences."""
    last = batches.base_sequence.astype(np.int64) + batches.last_offset_delta
    wrapped = np.where(last > MAX_SEQUENCE, last - MAX_SEQUENCE - 1, last)
    return np.where(batches.base_sequence == NO_SEQUENCE, NO_SEQUENCE, wrapped)
