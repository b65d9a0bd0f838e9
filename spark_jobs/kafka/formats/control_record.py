"""Control records: the markers that end a transaction on a partition (facts §1.5)."""

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from spark_jobs.kafka.errors import InvalidRecord
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.limits import DEFAULT_LIMITS, RecordLimits
from spark_jobs.kafka.formats.primitives import Reader
from spark_jobs.kafka.formats.record_batch import TimestampType, read_whole_header
from spark_jobs.kafka.formats.records import Record, read_stored_records

_KEY = Struct(">hh")  # version, type
_VALUE = Struct(">hi")  # version, coordinator epoch
_CURRENT_VERSION = 0


class ControlType(IntEnum):
    """The type of a control record; types 2-6 are only in KRaft's own log."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """The coordinator's decision on one transaction; `control_type` is ABORT or COMMIT."""

    control_type: ControlType
    coordinator_epoch: int


def read_control_type(key: bytes | None, *, source: str = "<bytes>", position: int = 0) -> ControlType:
    """The type that a control record's key names; later key versions are read as version 0."""
    reader = Reader(key or b"", error=InvalidRecord, source=source, origin=position, in_place=False)
    version = reader.read_int16()
    if version < 0:
        raise reader.fail(expected="a control key version of 0 or more", found=version)
    code = reader.read_int16()
    return ControlType(code) if code in ControlType._value2member_map_ else ControlType.UNKNOWN


def read_first_control_type(
    batch: bytes | memoryview,
    *,
    limits: RecordLimits = DEFAULT_LIMITS,
    source: str = "<bytes>",
    position: int = 0,
) -> ControlType | None:
    """Type of a control batch's first record, the only one a broker reads; None if there is none."""
    record = _first_control_record(batch, limits, source, position)
    return None if record is None else read_control_type(record.key, source=source, position=position)


def read_marker(
    batch: bytes | memoryview,
    *,
    limits: RecordLimits = DEFAULT_LIMITS,
    source: str = "<bytes>",
    position: int = 0,
) -> EndTransactionMarker | None:
    """The marker in the v2 batch that `batch` begins with; None for data, empty batches and other types."""
    record = _first_control_record(batch, limits, source, position)
    if record is None:
        return None
    control_type = read_control_type(record.key, source=source, position=position)
    if control_type not in {ControlType.ABORT, ControlType.COMMIT}:
        return None
    return read_marker_value(control_type, record.value, source=source, position=position)


def read_marker_value(
    control_type: ControlType, value: bytes | None, *, source: str = "<bytes>", position: int = 0
) -> EndTransactionMarker:
    """The marker of that type; later value versions are read as version 0."""
    reader = Reader(value or b"", error=InvalidRecord, source=source, origin=position, in_place=False)
    version = reader.read_int16()
    if version < _CURRENT_VERSION:
        raise reader.fail(expected="a marker version of 0 or more", found=version)
    return EndTransactionMarker(control_type=control_type, coordinator_epoch=reader.read_int32())


def _first_control_record(
    batch: bytes | memoryview, limits: RecordLimits, source: str, position: int
) -> Record | None:
    if not read_whole_header(batch, source=source, position=position).is_control:
        return None
    return next(read_stored_records(batch, limits=limits, source=source, position=position), None)


def write_marker(
    *,
    base_offset: int,
    partition_leader_epoch: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    control_type: ControlType,
    coordinator_epoch: int,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """A marker batch: 78 bytes, as a leader appends it."""
    return build_batch(
        records=(write_marker_record(control_type=control_type, coordinator_epoch=coordinator_epoch),),
        base_timestamp=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        timestamp_type=timestamp_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def write_marker_record(*, control_type: ControlType, coordinator_epoch: int) -> Record:
    """The record inside a marker batch."""
    return Record(
        key=_KEY.pack(_CURRENT_VERSION, control_type), value=_VALUE.pack(_CURRENT_VERSION, coordinator_epoch)
    )
