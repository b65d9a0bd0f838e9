"""What records of Kafka's own topics mean: transactional ids and their states, groups and their offsets."""

from collections.abc import Iterable, Iterator

from spark_jobs.inspect.partition import CONSUMER_OFFSETS, TRANSACTION_STATE, PartitionLog
from spark_jobs.inspect.printers import Cell, Table
from spark_jobs.inspect.segments import Segment
from spark_jobs.kafka.coordinator import group_offsets
from spark_jobs.kafka.coordinator import history as coordinator_history
from spark_jobs.kafka.coordinator.group_offsets import (
    GroupOffsets,
    GroupPartition,
    OffsetCommit,
    OffsetsMarker,
    StoredOffset,
)
from spark_jobs.kafka.coordinator.history import CoordinatorEntry, CoordinatorRecord, UnreadableRecord
from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.record_batch import MAGIC_V2, RecordBatchHeader, read_header
from spark_jobs.kafka.formats.records import LogRecord, read_records
from spark_jobs.kafka.formats.transaction_state import TransactionLogValue, TransactionState
from spark_jobs.reading.remarks import Remark, error, plural, warning

_ID_COLUMNS = (
    "transactional_id", "state", "producer_id", "producer_epoch", "partitions", "transaction_timeout_ms",
    "start_timestamp", "last_update_timestamp", "client_transaction_version", "record_offset",
)  # fmt: skip
_OFFSET_COLUMNS = (
    "group", "topic", "partition", "offset", "leader_epoch", "metadata", "commit_timestamp",
    "pending_producer_id", "record_offset",
)  # fmt: skip
_UNDECIDED = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

Batch = tuple[RecordBatchHeader, list[LogRecord]]


def coordinator_view(log: PartitionLog) -> tuple[tuple[Table, ...], tuple[Remark, ...]]:
    """Tables and remarks for the two topics whose records are understood; nothing for all others."""
    if log.topic == TRANSACTION_STATE:
        return _transactions_view(log)
    return _offsets_view(log) if log.topic == CONSUMER_OFFSETS else ((), ())


def _transactions_view(log: PartitionLog) -> tuple[tuple[Table, ...], tuple[Remark, ...]]:
    problems: list[Remark] = []
    state = coordinator_history.fold(_coordinator_entries(log, problems))
    rows = tuple(_id_row(entry) for _, entry in sorted(state.current.items()))
    table = Table(name="transactional_id", columns=_ID_COLUMNS, rows=rows)
    values = coordinator_history.current_values(state).values()
    unreadable = [entry for entry in state.current.values() if isinstance(entry, UnreadableRecord)]
    problems += [
        error(f"transactional id {entry.transactional_id!r}: {entry.problem}") for entry in unreadable
    ]
    return (table,), (*_undecided(values), *problems)


def _coordinator_entries(log: PartitionLog, problems: list[Remark]) -> Iterator[CoordinatorEntry]:
    for segment in log.served:
        for header, records in _batches(segment, problems):
            try:
                yield from coordinator_history.read_entries(header, records, source=segment.path.name)
            except CorruptData as problem:
                problems.append(error(str(problem)))


def _batches(segment: Segment, problems: list[Remark]) -> Iterator[Batch]:
    """Header and records of every batch that can be read."""
    positions = segment.batches.position[segment.batches.crc_ok & (segment.batches.magic == MAGIC_V2)]
    with memoryview(segment.data) as view:
        for position in positions.tolist():
            header = read_header(view, position)
            batch = view[position : position + header.size]
            try:
                records = list(read_records(batch, source=segment.path.name, position=position))
            except CorruptData as problem:
                problems.append(error(str(problem)))
            else:
                yield header, records


def _id_row(entry: CoordinatorEntry) -> tuple[Cell, ...]:
    value = entry.value if isinstance(entry, CoordinatorRecord) else None
    if value is None:
        return (entry.transactional_id, "unreadable", *(None,) * (len(_ID_COLUMNS) - 3), entry.offset)
    return (
        entry.transactional_id,
        value.transaction_status.label,
        value.producer_id,
        value.producer_epoch,
        " ".join(str(partition) for partition in sorted(value.topic_partitions)),
        value.transaction_timeout_ms,
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
        entry.offset,
    )


def _undecided(values: Iterable[TransactionLogValue]) -> Iterator[Remark]:
    states = [value.transaction_status for value in values]
    for state in _UNDECIDED:
        count = states.count(state)
        if count:
            meaning = (
                "open" if state is TransactionState.ONGOING else "decided, its markers not all acknowledged"
            )
            yield warning(f"{plural(count, 'transaction')} in {state.label}: {meaning}")


def _offsets_view(log: PartitionLog) -> tuple[tuple[Table, ...], tuple[Remark, ...]]:
    problems: list[Remark] = []
    offsets = group_offsets.fold(_offset_events(log, problems))
    rows = tuple(_offset_row(key, stored, pending) for key, stored, pending in _stored(offsets))
    table = Table(name="consumer_offset", columns=_OFFSET_COLUMNS, rows=rows)
    pending_offsets = sum(len(entries) for entries in offsets.pending.values())
    if pending_offsets:
        problems.append(warning(f"{plural(pending_offsets, 'offset')} pending until their transaction ends"))
    return (table,), tuple(problems)


def _offset_events(log: PartitionLog, problems: list[Remark]) -> Iterator[OffsetCommit | OffsetsMarker]:
    for segment in log.served:
        for header, records in _batches(segment, problems):
            try:
                yield from group_offsets.read_events(header, records, source=segment.path.name)
            except CorruptData as problem:
                problems.append(error(str(problem)))


def _stored(offsets: GroupOffsets) -> Iterator[tuple[GroupPartition, StoredOffset, int | None]]:
    for key, stored in sorted(offsets.committed.items()):
        yield key, stored, None
    for producer_id, pending_offsets in sorted(offsets.pending.items()):
        for key, stored in sorted(pending_offsets.items()):
            yield key, stored, producer_id


def _offset_row(key: GroupPartition, stored: StoredOffset, pending: int | None) -> tuple[Cell, ...]:
    group, (topic, partition) = key
    value = stored.value
    return (
        group,
        topic,
        partition,
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        pending,
        stored.record_offset,
    )
