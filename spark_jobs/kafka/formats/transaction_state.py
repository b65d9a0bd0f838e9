"""`__transaction_state`: keys and values as the transaction coordinator writes them (facts §1.13, §3.1)."""

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache, partial
from struct import Struct

from spark_jobs.kafka.errors import CorruptCoordinatorRecord
from spark_jobs.kafka.formats.primitives import (
    Reader,
    write_compact_nullable_string,
    write_nullable_string,
    write_tagged_fields,
    write_unsigned_varint,
)
from spark_jobs.kafka.formats.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from spark_jobs.kafka.topic_partition import TopicPartition

TRANSACTION_KEY_TYPE = 0
HIGHEST_VALUE_VERSION = 1
FLEXIBLE_VALUE_VERSION = 1
TWO_PHASE_COMMIT_TIMEOUT_MS = 2**31 - 1
"""A transaction with this timeout never times out (facts §0)."""

_HEAD = Struct(
    ">"
    "h"  # version of the schema
    "q"  # producer id
    "h"  # producer epoch
    "i"  # transaction timeout, ms
    "b"  # status
)
_TIMES = Struct(">qq")  # last update, start
_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")

TAG_PREVIOUS_PRODUCER_ID = 0
TAG_NEXT_PRODUCER_ID = 1
TAG_CLIENT_TRANSACTION_VERSION = 2
TAG_NEXT_PRODUCER_EPOCH = 3

_REMEMBERED = 1 << 16


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
        return self is TransactionState.COMPLETE_COMMIT or self is TransactionState.COMPLETE_ABORT


Tags = tuple[tuple[int, bytes], ...]
"""Tagged fields that this version does not know, by ascending tag."""


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
    tags: Tags = ()


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
    unknown_tags: Tags = ()

    @property
    def topic_partitions(self) -> frozenset[TopicPartition]:
        """Every partition of the transaction; empty in state Empty."""
        if self.transaction_status is TransactionState.EMPTY:
            return frozenset()
        return _partitions_of(self.transaction_partitions or ())


@lru_cache(maxsize=_REMEMBERED)
def _partitions_of(topics: tuple[TopicPartitions, ...]) -> frozenset[TopicPartition]:
    """Cached: every record of a transaction lists its partitions, and many transactions list the same."""
    return frozenset(TopicPartition(t.topic, p) for t in topics for p in t.partition_ids)


def group_by_topic(partitions: frozenset[TopicPartition]) -> tuple[TopicPartitions, ...]:
    """`partitions` as a value lists them, sorted; a broker's order follows its hash map and means nothing."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return tuple(TopicPartitions(topic=topic, partition_ids=tuple(ids)) for topic, ids in topics.items())


def read_key(data: bytes, *, source: str = "<bytes>") -> TransactionLogKey | UnknownKey:
    reader = Reader(data, error=CorruptCoordinatorRecord, source=source)
    record_type = reader.read_int16()
    if record_type != TRANSACTION_KEY_TYPE:
        return UnknownKey(record_type=record_type, data=reader.read_bytes(reader.remaining))
    key = TransactionLogKey(transactional_id=reader.read_string())
    expect_end(reader)
    return key


def write_key(key: TransactionLogKey) -> bytes:
    return _INT16.pack(TRANSACTION_KEY_TYPE) + write_nullable_string(key.transactional_id)


def value_version(data: bytes, *, source: str = "<bytes>") -> int:
    """The schema version that a value claims; recordings are compared by it."""
    return Reader(data, error=CorruptCoordinatorRecord, source=source).read_int16()


def read_value(data: bytes, *, source: str = "<bytes>") -> TransactionLogValue:
    """A value of either version; a tombstone has no value to read."""
    reader = Reader(data, error=CorruptCoordinatorRecord, source=source)
    version = reader.read_int16()
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise reader.fail(expected=f"a value version up to {HIGHEST_VALUE_VERSION}", found=version)
    value = _read_fields(reader, flexible=version >= FLEXIBLE_VALUE_VERSION)
    expect_end(reader)
    return value


def write_value(value: TransactionLogValue, version: int = HIGHEST_VALUE_VERSION) -> bytes:
    """The bytes of `value`; version 0 has no room for tags, so they are left out as a TV0 broker does."""
    flexible = version >= FLEXIBLE_VALUE_VERSION
    head = _HEAD.pack(
        version,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        value.transaction_status,
    )
    times = _TIMES.pack(value.transaction_last_update_timestamp_ms, value.transaction_start_timestamp_ms)
    tags = write_tagged_fields(_tags_of(value)) if flexible else b""
    return head + _write_partitions(value.transaction_partitions, flexible=flexible) + times + tags


def expect_end(reader: Reader) -> None:
    """Kafka writes nothing after the last field."""
    if reader.remaining:
        raise reader.fail(expected="the end", found=f"{reader.remaining} more bytes")


def _read_fields(reader: Reader, *, flexible: bool) -> TransactionLogValue:
    producer_id, producer_epoch = reader.read_int64(), reader.read_int16()
    timeout_ms, status = reader.read_int32(), _read_status(reader)
    read_topic = partial(_read_topic, reader, flexible=flexible)
    partitions = reader.read_compact_array(read_topic) if flexible else reader.read_array(read_topic)
    last_update_ms, start_ms = reader.read_int64(), reader.read_int64()
    tags = reader.read_tagged_fields() if flexible else {}
    return TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_timeout_ms=timeout_ms,
        transaction_status=status,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=last_update_ms,
        transaction_start_timestamp_ms=start_ms,
        previous_producer_id=_tag(tags, TAG_PREVIOUS_PRODUCER_ID, _INT64, NO_PRODUCER_ID, reader),
        next_producer_id=_tag(tags, TAG_NEXT_PRODUCER_ID, _INT64, NO_PRODUCER_ID, reader),
        client_transaction_version=_tag(tags, TAG_CLIENT_TRANSACTION_VERSION, _INT16, 0, reader),
        next_producer_epoch=_tag(tags, TAG_NEXT_PRODUCER_EPOCH, _INT16, NO_PRODUCER_EPOCH, reader),
        unknown_tags=tuple(sorted(tags.items())),
    )


def _read_status(reader: Reader) -> TransactionState:
    status = reader.read_int8()
    if not 0 <= status < len(TransactionState):
        raise reader.fail(expected="a transaction status from 0 to 7", found=status)
    return TransactionState(status)


def _read_topic(reader: Reader, *, flexible: bool) -> TopicPartitions:
    topic = reader.read_compact_string() if flexible else reader.read_string()
    read_id = reader.read_int32
    partition_ids = reader.read_compact_array(read_id) if flexible else reader.read_array(read_id)
    if partition_ids is None:
        raise reader.fail(expected="an array of partition ids", found="null")
    tags = tuple(sorted(reader.read_tagged_fields().items())) if flexible else ()
    return TopicPartitions(topic=topic, partition_ids=partition_ids, tags=tags)


def _tag(tags: dict[int, bytes], tag: int, layout: Struct, default: int, reader: Reader) -> int:
    """Takes the tagged integer out of `tags`."""
    data = tags.pop(tag, None)
    if data is None:
        return default
    if len(data) != layout.size:
        raise reader.fail(expected=f"{layout.size} bytes of tag {tag}", found=len(data))
    return int(layout.unpack(data)[0])


def _tags_of(value: TransactionLogValue) -> dict[int, bytes]:
    """Tagged fields that differ from their default, and those this version does not know."""
    known = (
        (TAG_PREVIOUS_PRODUCER_ID, _INT64, value.previous_producer_id, NO_PRODUCER_ID),
        (TAG_NEXT_PRODUCER_ID, _INT64, value.next_producer_id, NO_PRODUCER_ID),
        (TAG_CLIENT_TRANSACTION_VERSION, _INT16, value.client_transaction_version, 0),
        (TAG_NEXT_PRODUCER_EPOCH, _INT16, value.next_producer_epoch, NO_PRODUCER_EPOCH),
    )
    written = {tag: layout.pack(field) for tag, layout, field, default in known if field != default}
    return written | dict(value.unknown_tags)


def _write_partitions(partitions: tuple[TopicPartitions, ...] | None, *, flexible: bool) -> bytes:
    if partitions is None:
        return write_unsigned_varint(0) if flexible else _INT32.pack(-1)
    topics = b"".join(_write_topic(topic, flexible=flexible) for topic in partitions)
    return _write_count(len(partitions), flexible=flexible) + topics


def _write_topic(partitions: TopicPartitions, *, flexible: bool) -> bytes:
    write_name = write_compact_nullable_string if flexible else write_nullable_string
    ids = b"".join(_INT32.pack(partition) for partition in partitions.partition_ids)
    tags = write_tagged_fields(dict(partitions.tags)) if flexible else b""
    count = _write_count(len(partitions.partition_ids), flexible=flexible)
    return write_name(partitions.topic) + count + ids + tags


def _write_count(count: int, *, flexible: bool) -> bytes:
    return write_unsigned_varint(count + 1) if flexible else _INT32.pack(count)
