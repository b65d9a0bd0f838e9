"""`__consumer_offsets`: the keys and values of committed offsets (facts §1.14)."""

from dataclasses import dataclass
from struct import Struct

from spark_jobs.kafka.errors import CorruptCoordinatorRecord
from spark_jobs.kafka.formats.primitives import (
    Reader,
    write_compact_nullable_string,
    write_nullable_string,
    write_tagged_fields,
)
from spark_jobs.kafka.formats.record_batch import NO_PARTITION_LEADER_EPOCH, NO_TIMESTAMP
from spark_jobs.kafka.formats.transaction_state import Tags, UnknownKey, expect_end
from spark_jobs.kafka.topic_partition import TopicPartition

OFFSET_KEY_TYPES = (0, 1)
"""Both mean the same; 0 is what the oldest brokers wrote."""
KEY_TYPES = frozenset(range(24)) - {9, 18}
"""Committed offsets (0, 1), classic (2), consumer (3-8, 16), share (10-15) and streams groups (17, 19-23)."""
HIGHEST_VALUE_VERSION = 4
FLEXIBLE_VALUE_VERSION = 4
FIRST_VERSION_WITH_LEADER_EPOCH = 3
VERSION_WITH_EXPIRE_TIMESTAMP = 1
TAG_TOPIC_ID = 0

_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")
_TOPIC_ID_SIZE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey:
    """The group and partition of a committed offset; `record_type` is 1, or 0 in very old logs."""

    group: str
    topic: str
    partition: int
    record_type: int = 1

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """A record about a group itself: its type and the group; the rest of the key stays unread in `data`."""

    record_type: int
    group: str
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    """A committed offset; times in milliseconds, -1 where there is none."""

    offset: int
    metadata: str
    commit_timestamp: int
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    expire_timestamp: int = NO_TIMESTAMP
    topic_id: bytes | None = None
    unknown_tags: Tags = ()


OffsetsKey = OffsetCommitKey | GroupKey | UnknownKey


def read_key(data: bytes, *, source: str = "<bytes>") -> OffsetsKey:
    """A key of any type; one of an unknown type is kept as bytes, and the loader skips it."""
    reader = Reader(data, error=CorruptCoordinatorRecord, source=source)
    record_type = reader.read_int16()
    if record_type not in KEY_TYPES:
        return UnknownKey(record_type=record_type, data=reader.read_bytes(reader.remaining))
    group = reader.read_string()
    if record_type not in OFFSET_KEY_TYPES:
        return GroupKey(record_type=record_type, group=group, data=reader.read_bytes(reader.remaining))
    key = OffsetCommitKey(
        group=group, topic=reader.read_string(), partition=reader.read_int32(), record_type=record_type
    )
    expect_end(reader)
    return key


def write_key(key: OffsetsKey) -> bytes:
    if isinstance(key, UnknownKey):
        return _INT16.pack(key.record_type) + key.data
    head = _INT16.pack(key.record_type) + write_nullable_string(key.group)
    if isinstance(key, GroupKey):
        return head + key.data
    return head + write_nullable_string(key.topic) + _INT32.pack(key.partition)


def read_value(data: bytes, *, source: str = "<bytes>") -> OffsetCommitValue:
    """An offset commit's value of any version; a tombstone has no value to read."""
    reader = Reader(data, error=CorruptCoordinatorRecord, source=source)
    version = reader.read_int16()
    if not 0 <= version <= HIGHEST_VALUE_VERSION:
        raise reader.fail(expected=f"a value version up to {HIGHEST_VALUE_VERSION}", found=version)
    value = _read_fields(reader, version)
    expect_end(reader)
    return value


def write_value(value: OffsetCommitValue, version: int = HIGHEST_VALUE_VERSION) -> bytes:
    """The bytes of `value`; fields that `version` lacks are left out."""
    flexible = version >= FLEXIBLE_VALUE_VERSION
    write_text = write_compact_nullable_string if flexible else write_nullable_string
    with_epoch = version >= FIRST_VERSION_WITH_LEADER_EPOCH
    with_expiry = version == VERSION_WITH_EXPIRE_TIMESTAMP
    return b"".join(
        (
            _INT16.pack(version),
            _INT64.pack(value.offset),
            _INT32.pack(value.leader_epoch) if with_epoch else b"",
            write_text(value.metadata),
            _INT64.pack(value.commit_timestamp),
            _INT64.pack(value.expire_timestamp) if with_expiry else b"",
            write_tagged_fields(_tags_of(value)) if flexible else b"",
        )
    )


def _read_fields(reader: Reader, version: int) -> OffsetCommitValue:
    flexible = version >= FLEXIBLE_VALUE_VERSION
    offset = reader.read_int64()
    with_epoch = version >= FIRST_VERSION_WITH_LEADER_EPOCH
    leader_epoch = reader.read_int32() if with_epoch else NO_PARTITION_LEADER_EPOCH
    metadata = reader.read_compact_string() if flexible else reader.read_string()
    commit_timestamp = reader.read_int64()
    with_expiry = version == VERSION_WITH_EXPIRE_TIMESTAMP
    expire_timestamp = reader.read_int64() if with_expiry else NO_TIMESTAMP
    tags = reader.read_tagged_fields() if flexible else {}
    return OffsetCommitValue(
        offset=offset,
        metadata=metadata,
        commit_timestamp=commit_timestamp,
        leader_epoch=leader_epoch,
        expire_timestamp=expire_timestamp,
        topic_id=_topic_id(tags, reader),
        unknown_tags=tuple(sorted(tags.items())),
    )


def _topic_id(tags: dict[int, bytes], reader: Reader) -> bytes | None:
    """Takes the topic id out of `tags`."""
    topic_id = tags.pop(TAG_TOPIC_ID, None)
    if topic_id is not None and len(topic_id) != _TOPIC_ID_SIZE:
        raise reader.fail(expected=f"a topic id of {_TOPIC_ID_SIZE} bytes", found=len(topic_id))
    return topic_id


def _tags_of(value: OffsetCommitValue) -> dict[int, bytes]:
    known = {} if value.topic_id is None else {TAG_TOPIC_ID: value.topic_id}
    return known | dict(value.unknown_tags)
