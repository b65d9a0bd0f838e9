"""A leader's checks of a batch before its producer state: format, records, timestamps (facts §2.3, §2.11).

A valid batch gets its offset, leader epoch and timestamps, as it will be in the log.
"""

from dataclasses import dataclass, replace
from struct import Struct

from spark_jobs.kafka.errors import CorruptData, InvalidRecord, KafkaError
from spark_jobs.kafka.formats.batch_builder import seal
from spark_jobs.kafka.formats.compression import compress
from spark_jobs.kafka.formats.record_batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_TIMESTAMP,
    Codec,
    RecordBatchHeader,
    TimestampType,
    assign_offset,
    check_batch,
    read_header,
    set_max_timestamp,
)
from spark_jobs.kafka.formats.records import LogRecord, read_records, read_stored_records, write_records
from spark_jobs.kafka.producers.admission import check_client_header
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.sample.broker.replica_log import PartitionConfig

_SIZE = Struct(">8xi")
_SIZE_AND_MAGIC = Struct(">8xi4xb")
_SMALLEST_SIZE = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordError:
    """The error of one record; `batch_index` counts from 0."""

    batch_index: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedBatch:
    """Why a batch was rejected before the check of its producer state.

    `knows_log_start` is false where a broker replies before it has read the log; such a reply has -1.
    """

    kafka_error: KafkaError
    message: str | None = None
    record_errors: tuple[RecordError, ...] = ()
    knows_log_start: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedBatch:
    """A batch as it will be in the log."""

    batch: bytes
    header: RecordBatchHeader


def check_produce_request(records: bytes) -> RejectedBatch | None:
    """A produce request holds exactly one v2 batch per partition; a torn one after it is ignored.

    From 12 bytes on there is a size, which must be valid (facts §2.3).
    """
    first = _next_batch_size(records, 0)
    if isinstance(first, RejectedBatch):
        return first
    if first is None:
        return _refused("a request without a whole batch")
    magic = _SIZE_AND_MAGIC.unpack_from(records)[1]
    if magic != MAGIC_V2:
        return _refused(f"a batch of magic {magic}, not {MAGIC_V2}")
    second = _next_batch_size(records, first)
    if isinstance(second, RejectedBatch):
        return second
    return None if second is None else _refused("more than one batch in a request")


def _next_batch_size(records: bytes, position: int) -> int | RejectedBatch | None:
    """Bytes of the batch at `position`, None if it is not whole; size and magic must be valid."""
    if len(records) - position < _SIZE.size:
        return None
    (size,) = _SIZE.unpack_from(records, position)
    if size < _SMALLEST_SIZE:
        return _corrupt(f"a batch of {size} bytes")
    if len(records) - position < _SIZE_AND_MAGIC.size:
        return None
    magic = _SIZE_AND_MAGIC.unpack_from(records, position)[1]
    if not 0 <= magic <= MAGIC_V2:
        return _corrupt(f"magic byte {magic}")
    return LOG_OVERHEAD + size if len(records) - position >= LOG_OVERHEAD + size else None


def _refused(message: str) -> RejectedBatch:
    return RejectedBatch(kafka_error=KafkaError.INVALID_RECORD, message=message, knows_log_start=False)


def _corrupt(message: str) -> RejectedBatch:
    return RejectedBatch(kafka_error=KafkaError.CORRUPT_MESSAGE, message=message, knows_log_start=False)


def check_whole_batch(
    records: bytes, config: PartitionConfig, origin: AppendOrigin
) -> RecordBatchHeader | RejectedBatch:
    """The first checks of an append, in a leader's order: base offset, size limit, CRC (facts §2.3)."""
    if len(records) < HEADER_SIZE:
        return _corrupt(f"{len(records)} bytes for a batch")
    header = read_header(records)
    if origin is AppendOrigin.CLIENT and header.base_offset != 0:
        return RejectedBatch(kafka_error=KafkaError.INVALID_RECORD, message=check_client_header(header))
    if header.size > config.max_message_bytes:
        message = f"{header.size} bytes, more than {config.max_message_bytes}"
        return RejectedBatch(kafka_error=KafkaError.MESSAGE_TOO_LARGE, message=message, knows_log_start=False)
    try:
        return check_batch(records)
    except CorruptData as error:
        return _corrupt(str(error))


def validate(
    batch: bytes,
    *,
    config: PartitionConfig,
    origin: AppendOrigin,
    offset: int,
    partition_leader_epoch: int,
    now: int,
    to_magic: int = MAGIC_V2,
) -> ValidatedBatch | RejectedBatch:
    """A whole v2 batch as a leader would write it at `offset`, or the reason for its rejection."""
    header = read_header(batch)
    problem = check_client_header(header) if origin is AppendOrigin.CLIENT else None
    if problem is not None:
        return RejectedBatch(kafka_error=KafkaError.INVALID_RECORD, message=problem)
    if to_magic < MAGIC_V2 and (header.is_transactional or header.has_producer_id):
        return RejectedBatch(kafka_error=KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    try:
        records = tuple(read_records(batch))
    except InvalidRecord as error:
        return RejectedBatch(kafka_error=KafkaError.INVALID_RECORD, message=str(error))
    except CorruptData as error:  # a failing codec: a broker has no error code for it
        return RejectedBatch(kafka_error=KafkaError.UNKNOWN_SERVER_ERROR, message=str(error))
    failure = _check_order(records, header, config) or _check_records(records, header, config, now)
    if failure is not None:
        return failure
    stamped = _set_timestamps(_recompress(batch, header, config), records, config, now)
    placed = assign_offset(stamped, base_offset=offset, partition_leader_epoch=partition_leader_epoch)
    return ValidatedBatch(batch=placed, header=read_header(placed))


def _check_order(
    records: tuple[LogRecord, ...], header: RecordBatchHeader, config: PartitionConfig
) -> RejectedBatch | None:
    """Inside a compressed batch offsets must count up from 0; in an uncompressed one they are not checked.

    A leader that keeps the producer's codec fails while it writes its error message (facts §2.11).
    """
    found = [record.offset for record in records]
    if not header.codec_id or found == list(range(len(found))):
        return None
    keeps_codec = config.compression_codec is None or config.compression_codec == header.codec_id
    return RejectedBatch(
        kafka_error=KafkaError.UNKNOWN_SERVER_ERROR if keeps_codec else KafkaError.INVALID_RECORD,
        message=f"offsets inside the batch must count up from 0, found {found[:10]}",
    )


def _check_records(
    records: tuple[LogRecord, ...], header: RecordBatchHeader, config: PartitionConfig, now: int
) -> RejectedBatch | None:
    found = [(index, _check_record(record, header, config, now)) for index, record in enumerate(records)]
    errors = [(index, *error) for index, error in found if error is not None]
    if not errors:
        return None
    timestamps = any(error is KafkaError.INVALID_TIMESTAMP for _, error, _ in errors)
    return RejectedBatch(
        kafka_error=KafkaError.INVALID_TIMESTAMP if timestamps else KafkaError.INVALID_RECORD,
        message=f"{len(errors)} of {len(records)} records refused",
        record_errors=tuple(RecordError(batch_index=index, message=text) for index, _, text in errors),
    )


def _check_record(
    record: LogRecord, header: RecordBatchHeader, config: PartitionConfig, now: int
) -> tuple[KafkaError, str] | None:
    if config.is_compacted and record.key is None:
        text = f"record without key for the compacted partition {config.topic_partition}"
        return KafkaError.INVALID_RECORD, text
    if config.message_timestamp_type is TimestampType.CREATE_TIME and record.timestamp != NO_TIMESTAMP:
        return _check_create_time(record, config, now)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return KafkaError.INVALID_TIMESTAMP, "a producer may not claim LogAppendTime"
    return None


def _check_create_time(record: LogRecord, config: PartitionConfig, now: int) -> tuple[KafkaError, str] | None:
    earliest = now - config.message_timestamp_before_max_ms
    latest = now + config.message_timestamp_after_max_ms
    if earliest <= record.timestamp <= latest:
        return None
    text = f"timestamp {record.timestamp} of offset {record.offset} is not between {earliest} and {latest}"
    return KafkaError.INVALID_TIMESTAMP, text


def _recompress(batch: bytes, header: RecordBatchHeader, config: PartitionConfig) -> bytes:
    """The batch in the topic's codec; control batches stay as they are (facts §2.11)."""
    codec = config.compression_codec
    if codec is None or header.is_control or header.codec_id == codec:
        return batch
    payload = compress(Codec(codec), write_records(read_stored_records(batch)))
    return seal(replace(header, attributes=(header.attributes & ~CODEC_MASK) | codec), payload)


def _set_timestamps(batch: bytes, records: tuple[LogRecord, ...], config: PartitionConfig, now: int) -> bytes:
    """Sets the topic's timestamp type, and the largest timestamp as found instead of as claimed."""
    if config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
        return set_max_timestamp(batch, TimestampType.LOG_APPEND_TIME, now)
    largest = max((record.timestamp for record in records), default=NO_TIMESTAMP)
    return set_max_timestamp(batch, TimestampType.CREATE_TIME, max(largest, NO_TIMESTAMP))
