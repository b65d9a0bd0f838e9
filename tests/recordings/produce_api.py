"""How a broker answers a produce request: its checks before the append to a log, and its reply."""

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.record_batch import (
    HEADER_SIZE,
    Codec,
    RecordBatchHeader,
    TimestampType,
    read_header,
)
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.kafka.producers.verdict import NO_GUARD
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.sample.broker.coordinator import produce_error
from spark_jobs.sample.broker.log_validator import check_produce_request
from spark_jobs.sample.broker.partition_log import AppendResult
from tests.recordings.broker import Broker
from tests.recordings.events import Produce, ProducePart

UNKNOWN_TOPIC_OR_PARTITION = 3
TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
VALID_ACKS = frozenset({-1, 0, 1})
TV2_SINCE = 12
ZSTD_SINCE = 7
SMALLEST_SIZE = 14
HIGHEST_MAGIC = 2
SIZE_AND_MAGIC = Struct(">8xi4xb")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReply:
    """The reply for one partition, -1 for fields without a value; only the presence of its text counts."""

    error_code: int = KafkaError.NONE
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    refused_records: tuple[int, ...] = ()
    has_message: bool = False


Replies = dict[TopicPartition, PartitionReply]


def produce(broker: Broker, event: Produce) -> Replies:
    """Executes `event` and returns its replies."""
    refused = _refuse_request(event)
    if refused is not None:
        return {part.topic_partition: refused for part in event.parts}
    replies = {
        part.topic_partition: PartitionReply(error_code=error)
        for part in event.parts
        if (error := _refuse_part(broker, event, part))
    }
    asked = [part for part in event.parts if part.topic_partition not in replies]
    guards = _verify(broker, event, asked, replies)
    for part in asked:
        if part.topic_partition not in replies:
            guard = guards.get(part.topic_partition, NO_GUARD)
            replies[part.topic_partition] = _append(broker, event, part, guard)
    return replies


def _refuse_request(event: Produce) -> PartitionReply | None:
    """The error of a request as a whole, before its partitions are checked one by one."""
    for part in event.parts:
        if _is_unreadable(part.records):
            return PartitionReply(error_code=KafkaError.CORRUPT_MESSAGE, has_message=True)
        header = first_header(part)
        if header is not None and header.is_transactional:
            missing = event.transactional_id is None
            return PartitionReply(error_code=TRANSACTIONAL_ID_AUTHORIZATION_FAILED) if missing else None
    return None


def _is_unreadable(records: bytes) -> bool:
    """A first batch with an impossible size or magic stops a broker that only looks for transactions."""
    if len(records) < SIZE_AND_MAGIC.size:
        return False
    size, magic = SIZE_AND_MAGIC.unpack_from(records)
    return size < SMALLEST_SIZE or not 0 <= magic <= HIGHEST_MAGIC


def first_header(part: ProducePart) -> RecordBatchHeader | None:
    """The header of a part's first batch, if there is a whole v2 batch."""
    if len(part.records) < HEADER_SIZE:
        return None
    header = read_header(part.records)
    return header if header.magic == HIGHEST_MAGIC and header.size <= len(part.records) else None


def _refuse_part(broker: Broker, event: Produce, part: ProducePart) -> int:
    """The error of a part before the append to its partition's log, 0 if there is none."""
    if part.topic_partition not in broker.logs:
        return UNKNOWN_TOPIC_OR_PARTITION
    failure = check_produce_request(part.records)
    if failure is not None:
        return failure.kafka_error
    header = first_header(part)
    if event.api_version < ZSTD_SINCE and header is not None and header.codec_id == Codec.ZSTD:
        return KafkaError.UNSUPPORTED_COMPRESSION_TYPE
    return KafkaError.NONE


def _verify(
    broker: Broker, event: Produce, parts: list[ProducePart], replies: Replies
) -> Mapping[TopicPartition, int]:
    """Guards for the transactions that may begin here (facts §2.5); refusals go to `replies`."""
    headers = {part.topic_partition: header for part in parts if (header := first_header(part))}
    headers = {tp: header for tp, header in headers.items() if header.is_transactional}
    guards: dict[TopicPartition, int] = {}
    for topic_partition, header in headers.items():
        verification = broker.logs[topic_partition].maybe_start_transaction_verification(
            producer_id=header.producer_id,
            sequence=header.base_sequence,
            producer_epoch=header.producer_epoch,
            supports_epoch_bump=event.api_version >= TV2_SINCE,
            now=broker.now,
        )
        if verification.is_fenced:
            replies[topic_partition] = PartitionReply(error_code=KafkaError.INVALID_PRODUCER_EPOCH)
        elif verification.guard != NO_GUARD:
            guards[topic_partition] = verification.guard
    if guards and event.transactional_id is not None:
        header = headers[next(iter(guards))]
        for topic_partition, error in _ask_coordinator(broker, event, header, guards).items():
            if error is not KafkaError.NONE:
                replies[topic_partition] = _unverified(event, error)
    return guards


def _ask_coordinator(
    broker: Broker, event: Produce, header: RecordBatchHeader, guards: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, KafkaError]:
    """A TV2 produce adds its partitions to the transaction, an older one verifies that they are in it."""
    transactional_id = event.transactional_id or ""
    if event.api_version < TV2_SINCE:
        return broker.coordinator.verify_partitions(
            transactional_id,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            partitions=guards,
        )
    effects = broker.coordinator.add_partitions(
        transactional_id,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        partitions=guards,
        now=broker.time_of_next(transactional_id),
        transaction_version=TransactionVersion.TV2,
    )
    broker.apply(effects)
    return dict.fromkeys(guards, effects.reply)


def _unverified(event: Produce, error: KafkaError) -> PartitionReply:
    reported = produce_error(event.api_version, error)
    return PartitionReply(error_code=reported, has_message=reported is KafkaError.INVALID_TXN_STATE)


def _append(broker: Broker, event: Produce, part: ProducePart, guard: int) -> PartitionReply:
    if event.acks not in VALID_ACKS:
        return PartitionReply(error_code=KafkaError.INVALID_REQUIRED_ACKS)
    log = broker.leader(part.topic_partition)
    tv2 = event.api_version >= TV2_SINCE
    result = log.append(
        part.records,
        now=_append_time(broker, part),
        transaction_version=TransactionVersion.TV2 if tv2 else TransactionVersion.TV0,
        verification_guard=guard,
    )
    broker.replicated(log)
    return _reply(result)


def _append_time(broker: Broker, part: ProducePart) -> int:
    """The recorded log append time, the broker's clock at this append; without a reply, from the log."""
    if broker.settings.topics[part.topic_partition].timestamp_type is not TimestampType.LOG_APPEND_TIME:
        return broker.now
    if part.reply is None:
        return broker.recorded_times(part.topic_partition)[1]
    reported = int(part.reply["log_append_time_ms"])
    return reported if reported >= 0 else broker.now


def _reply(result: AppendResult) -> PartitionReply:
    refused = tuple(error.batch_index for error in result.record_errors)
    return PartitionReply(
        error_code=result.kafka_error,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time,
        log_start_offset=result.log_start_offset,
        refused_records=refused,
        has_message=bool(refused),
    )
