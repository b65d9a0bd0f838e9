"""Writes whole v2 batches (facts §1.3): fields and records in, bytes with length and CRC out."""

from collections.abc import Sequence
from dataclasses import replace

from spark_jobs.kafka.formats.compression import compress
from spark_jobs.kafka.formats.record_batch import (
    CONTROL_FLAG,
    CRC_START,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    Codec,
    RecordBatchHeader,
    TimestampType,
    crc32c,
    write_header,
)
from spark_jobs.kafka.formats.records import Record, write_records


def build_batch(
    *,
    records: Sequence[Record],
    base_timestamp: int,
    max_timestamp: int | None = None,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> bytes:
    """A batch of `records`; `max_timestamp` and `last_offset_delta` follow from them unless given."""
    if max_timestamp is None:
        max_timestamp = base_timestamp + max((record.timestamp_delta for record in records), default=0)
    if last_offset_delta is None:
        last_offset_delta = max((record.offset_delta for record in records), default=0)
    header = RecordBatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC_V2,
        crc=0,
        attributes=codec
        | (TIMESTAMP_TYPE_FLAG * (timestamp_type is TimestampType.LOG_APPEND_TIME))
        | (TRANSACTIONAL_FLAG * is_transactional)
        | (CONTROL_FLAG * is_control)
        | (DELETE_HORIZON_FLAG * has_delete_horizon),
        last_offset_delta=last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return seal(header, compress(codec, write_records(records)))


def seal(header: RecordBatchHeader, payload: bytes) -> bytes:
    """`header` and `payload` as one batch, with the right length and CRC in the header."""
    sized = replace(header, batch_length=HEADER_SIZE - LOG_OVERHEAD + len(payload))
    covered = write_header(sized)[CRC_START:] + payload
    return write_header(replace(sized, crc=crc32c(covered)))[:CRC_START] + covered
