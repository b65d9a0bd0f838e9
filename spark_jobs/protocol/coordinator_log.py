"""`__transaction_state`: keys and values as the transaction coordinator writes them (facts §1.13, §3.1)."""

from dataclasses import dataclass
from enum import IntEnum

from spark_jobs.protocol.flexible import (
    INT8,
    INT16,
    INT32,
    INT64,
    FieldReader,
    TaggedField,
    write_array,
    write_compact_array,
    write_compact_string,
    write_string,
    write_tagged_fields,
)
from spark_jobs.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from spark_jobs.protocol.topic_partition import TopicPartition

TRANSACTION_KEY_TYPE = 0
HIGHEST_VALUE_VERSION = 1
FLEXIBLE_VALUE_VERSION = 1
TWO_PHASE_COMMIT_TIMEOUT_MS = 2**31 - 1
"""A transaction with this timeout never times out (facts §0)."""

TAG_PREVIOUS_PRODUCER_ID = 0
TAG_NEXT_PRODUCER_ID = 1
TAG_CLIENT_TRANSACTION_VERSION = 2
TAG_NEXT_PRODUCER_EPOCH = 3


class TransactionState(IntEnum):
    """A transactional id's status as stored; Dead and PrepareEpochFence are never persisted."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name Kafka's tools print, such as `PrepareCommit`."""
        return self.name.title().replace("_", "")

    @property
    def is_prepare(self) -> bool:
        return self in {TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}

    @property
    def is_complete(self) -> bool:
        return self in {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}


PERSISTED_STATES = frozenset(TransactionState) - {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogKey:
    """The transactional id that a record is about."""

    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownKey:
    """A key of a type this version does not know; a coordinator ignores the record (facts §3.1)."""

    record_type: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """The partitions of one topic in a transaction, in the order stored."""

    topic: str
    partition_ids: tuple[int, ...]
    tags: tuple[TaggedField, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionLogValue:
    """One state of a transactional id; times in milliseconds, -1 where there is none.

    `partitions` is None exactly as stored (Empty); `unknown_tags` keeps what newer brokers add.
    """

    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_status: TransactionState
    transaction_partitions: tuple[TopicPartitions, ...] | None
    transaction_last_update_timestamp_ms: int
    transaction_start_timestamp_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_transaction_version: int = 0
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    unknown_tags: tuple[TaggedField, ...] = ()

    @property
    def topic_partitions(self) -> frozenset[TopicPartition]:
        """Every partition of the transaction; a list that comes with Empty means nothing."""
        if self.transaction_status is TransactionState.EMPTY:
            return frozenset()
        topics = self.transaction_partitions or ()
        return frozenset(TopicPartition(t.topic, p) for t in topics for p in t.partition_ids)


def group_by_topic(partitions: frozenset[TopicPartition]) -> tuple[TopicPartitions, ...]:
    """`partitions` as a value lists them, sorted; a broker's order follows its hash map and means nothing."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return tuple(TopicPartitions(topic=topic, partition_ids=tuple(ids)) for topic, ids in topics.items())


def read_key(data: bytes, *, source: str = "<bytes>") -> TransactionLogKey | UnknownKey:
    reader = FieldReader(data, source=source)
    record_type = reader.int16()
    if record_type != TRANSACTION_KEY_TYPE:
        return UnknownKey(record_type=record_type, data=reader.take(reader.remaining))
    key = TransactionLogKey(transactional_id=reader.required(reader.string()))
    reader.end()
    return key


def write_key(key: TransactionLogKey) -> bytes:
    return INT16.pack(TRANSACTION_KEY_TYPE) + write_string(key.transactional_id)


def value_version(data: bytes, *, source: str = "<bytes>") -> int:
    """The schema version that a value claims."""
    return FieldReader(data, source=source).int16()


def read_value(data: bytes, *, source: str = "<bytes>") -> TransactionLogValue:
    """A value of either version; a tombstone has no value to read."""
    reader = FieldReader(data, source=source)
    version = reader.int16()
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise reader.corrupt(f"a value version up to {HIGHEST_VALUE_VERSION}", version)
    value = _read_fields(reader, flexible=version >= FLEXIBLE_VALUE_VERSION)
    reader.end()
    return value


def write_value(value: TransactionLogValue, version: int = HIGHEST_VALUE_VERSION) -> bytes:
    """The bytes of `value`; version 0 has no room for tags, so they are left out as a TV0 broker does."""
    flexible = version >= FLEXIBLE_VALUE_VERSION
    return b"".join(
        (
            INT16.pack(version),
            INT64.pack(value.producer_id),
            INT16.pack(value.producer_epoch),
            INT32.pack(value.transaction_timeout_ms),
            INT8.pack(value.transaction_status),
            _write_partitions(value.transaction_partitions, flexible=flexible),
            INT64.pack(value.transaction_last_update_timestamp_ms),
            INT64.pack(value.transaction_start_timestamp_ms),
            write_tagged_fields(_tags_of(value)) if flexible else b"",
        )
    )


def _read_fields(reader: FieldReader, *, flexible: bool) -> TransactionLogValue:
    producer_id, producer_epoch, timeout = reader.int64(), reader.int16(), reader.int32()
    status = _read_status(reader)
    partitions = _read_partitions(reader, flexible=flexible)
    last_update, start = reader.int64(), reader.int64()
    tags = {field.tag: field.data for field in reader.tagged_fields()} if flexible else {}
    return TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_timeout_ms=timeout,
        transaction_status=status,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=last_update,
        transaction_start_timestamp_ms=start,
        previous_producer_id=_int64_tag(tags.pop(TAG_PREVIOUS_PRODUCER_ID, None), NO_PRODUCER_ID, reader),
        next_producer_id=_int64_tag(tags.pop(TAG_NEXT_PRODUCER_ID, None), NO_PRODUCER_ID, reader),
        client_transaction_version=_int16_tag(tags.pop(TAG_CLIENT_TRANSACTION_VERSION, None), 0, reader),
        next_producer_epoch=_int16_tag(tags.pop(TAG_NEXT_PRODUCER_EPOCH, None), NO_PRODUCER_EPOCH, reader),
        unknown_tags=tuple(TaggedField(tag=tag, data=data) for tag, data in tags.items()),
    )


def _read_status(reader: FieldReader) -> TransactionState:
    status = reader.int8()
    try:
        return TransactionState(status)
    except ValueError:
        raise reader.corrupt("a transaction status from 0 to 7", status) from None


def _read_partitions(reader: FieldReader, *, flexible: bool) -> tuple[TopicPartitions, ...] | None:
    count = reader.compact_array_length() if flexible else reader.array_length()
    if count is None:
        return None
    return tuple(_read_topic(reader, flexible=flexible) for _ in range(count))


def _read_topic(reader: FieldReader, *, flexible: bool) -> TopicPartitions:
    topic = reader.required(reader.compact_string() if flexible else reader.string())
    count = reader.compact_array_length() if flexible else reader.array_length()
    if count is None:
        raise reader.corrupt("an array of partition ids", "null")
    partition_ids = tuple(reader.int32() for _ in range(count))
    return TopicPartitions(
        topic=topic, partition_ids=partition_ids, tags=reader.tagged_fields() if flexible else ()
    )


def _write_partitions(partitions: tuple[TopicPartitions, ...] | None, *, flexible: bool) -> bytes:
    if flexible:
        return write_compact_array(partitions, _write_flexible_topic)
    return write_array(partitions, lambda t: write_string(t.topic) + write_array(t.partition_ids, INT32.pack))


def _write_flexible_topic(partitions: TopicPartitions) -> bytes:
    ids = write_compact_array(partitions.partition_ids, INT32.pack)
    return write_compact_string(partitions.topic) + ids + write_tagged_fields(partitions.tags)


def _tags_of(value: TransactionLogValue) -> tuple[TaggedField, ...]:
    """Tagged fields that differ from their default, and those this version does not know."""
    known = (
        (TAG_PREVIOUS_PRODUCER_ID, INT64, value.previous_producer_id, NO_PRODUCER_ID),
        (TAG_NEXT_PRODUCER_ID, INT64, value.next_producer_id, NO_PRODUCER_ID),
        (TAG_CLIENT_TRANSACTION_VERSION, INT16, value.client_transaction_version, 0),
        (TAG_NEXT_PRODUCER_EPOCH, INT16, value.next_producer_epoch, NO_PRODUCER_EPOCH),
    )
    written = (
        TaggedField(tag=tag, data=t.pack(field)) for tag, t, field, default in known if field != default
    )
    return (*written, *value.unknown_tags)


def _int64_tag(data: bytes | None, default: int, reader: FieldReader) -> int:
    if data is None:
        return default
    if len(data) != INT64.size:
        raise reader.corrupt("a tagged int64", f"{len(data)} bytes")
    (value,) = INT64.unpack(data)
    return int(value)


def _int16_tag(data: bytes | None, default: int, reader: FieldReader) -> int:
    if data is None:
        return default
    if len(data) != INT16.size:
        raise reader.corrupt("a tagged int16", f"{len(data)} bytes")
    (value,) = INT16.unpack(data)
    return int(value)
