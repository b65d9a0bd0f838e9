"""Committed offsets of consumer groups, those inside transactions included (facts §5).

One partition of `__consumer_offsets` is folded from its start: offsets inside a transaction are pending until
its marker. A later log position wins, not a later marker, so the fold does not depend on what compaction
removed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from spark_jobs.kafka.errors import CorruptCoordinatorRecord, KafkaError
from spark_jobs.kafka.formats.consumer_offsets import OffsetCommitKey, OffsetCommitValue, read_key, read_value
from spark_jobs.kafka.formats.control_record import ControlType, read_control_type
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kafka.topic_partition import TopicPartition

GroupPartition = tuple[str, TopicPartition]
"""A group and the partition whose offset it commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOffset:
    """A committed offset and where its record is in the log; `producer_id` is -1 outside transactions."""

    value: OffsetCommitValue
    record_offset: int
    producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """One offset-commit record; no value is a tombstone."""

    group: str
    topic_partition: TopicPartition
    producer_id: int
    record_offset: int
    value: OffsetCommitValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsMarker:
    """The end of a transaction that committed offsets."""

    producer_id: int
    is_commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """Committed offsets, and for each producer those that are pending until its marker."""

    committed: Mapping[GroupPartition, StoredOffset] = field(default_factory=dict)
    pending: Mapping[int, Mapping[GroupPartition, StoredOffset]] = field(default_factory=dict)

    def is_pending(self, key: GroupPartition) -> bool:
        return any(key in pending_offsets for pending_offsets in self.pending.values())

    def fetch(self, key: GroupPartition, *, require_stable: bool) -> StoredOffset | KafkaError | None:
        """What OffsetFetch answers; with `require_stable`, a pending offset is an error."""
        if require_stable and self.is_pending(key):
            return KafkaError.UNSTABLE_OFFSET_COMMIT
        return self.committed.get(key)


def read_events(
    header: RecordBatchHeader, records: Iterable[LogRecord], *, source: str = "<bytes>"
) -> Iterator[OffsetCommit | OffsetsMarker]:
    """The offset events of a batch; records of group membership and of unknown types are skipped."""
    for record in records:
        event = _marker(header, record) if header.is_control else _commit(header, record, source)
        if event is not None:
            yield event


def fold(
    events: Iterable[OffsetCommit | OffsetsMarker], *, before: GroupOffsets | None = None
) -> GroupOffsets:
    """The offsets after `events` in log order."""
    before = before or GroupOffsets()
    committed = dict(before.committed)
    pending = {producer_id: dict(pending_offsets) for producer_id, pending_offsets in before.pending.items()}
    for event in events:
        if isinstance(event, OffsetsMarker):
            _end(event, committed, pending.pop(event.producer_id, {}))
        elif event.value is None:
            _prune((event.group, event.topic_partition), committed, pending)
        else:
            # The producer id alone decides: a broker checks neither the transactional flag nor the epoch.
            store = committed if event.producer_id < 0 else pending.setdefault(event.producer_id, {})
            store[event.group, event.topic_partition] = StoredOffset(
                value=event.value, record_offset=event.record_offset, producer_id=event.producer_id
            )
    return GroupOffsets(
        committed=committed,
        pending={p: pending_offsets for p, pending_offsets in pending.items() if pending_offsets},
    )


def _end(
    marker: OffsetsMarker,
    committed: dict[GroupPartition, StoredOffset],
    pending_offsets: Mapping[GroupPartition, StoredOffset],
) -> None:
    if not marker.is_commit:
        return
    for key, stored in pending_offsets.items():
        present = committed.get(key)
        if present is None or stored.record_offset > present.record_offset:
            committed[key] = stored


def _prune(
    key: GroupPartition,
    committed: dict[GroupPartition, StoredOffset],
    pending: Mapping[int, dict[GroupPartition, StoredOffset]],
) -> None:
    committed.pop(key, None)
    for pending_offsets in pending.values():
        pending_offsets.pop(key, None)


def _marker(header: RecordBatchHeader, record: LogRecord) -> OffsetsMarker | None:
    control_type = read_control_type(record.key)
    if control_type not in {ControlType.ABORT, ControlType.COMMIT}:
        return None
    return OffsetsMarker(producer_id=header.producer_id, is_commit=control_type is ControlType.COMMIT)


def _commit(header: RecordBatchHeader, record: LogRecord, source: str) -> OffsetCommit | None:
    if record.key is None:
        raise CorruptCoordinatorRecord(source=source, position=0, expected="a key", found="null")
    key = read_key(record.key, source=source)
    if not isinstance(key, OffsetCommitKey):
        return None
    return OffsetCommit(
        group=key.group,
        topic_partition=key.topic_partition,
        producer_id=header.producer_id,
        record_offset=record.offset,
        value=None if record.value is None else read_value(record.value, source=source),
    )
