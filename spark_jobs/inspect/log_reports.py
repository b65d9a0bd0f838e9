"""Reports on a segment, a partition's directory and a log directory, with a remark per problem found."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from spark_jobs.inspect.printers import Cell, Report, Table
from spark_jobs.inspect.segment_files import Segment
from spark_jobs.inspect.small_files import neighbour_remarks, neighbour_tables
from spark_jobs.inspect.stored_partition import CONSUMER_OFFSETS, TRANSACTION_STATE, StoredPartition
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
from spark_jobs.kafka.formats.log_files import CLEAN_SHUTDOWN_FILE
from spark_jobs.kafka.formats.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    MAGIC_V2,
    RecordBatchHeader,
    read_header,
)
from spark_jobs.kafka.formats.records import LogRecord, read_records
from spark_jobs.kafka.formats.transaction_state import TransactionLogValue, TransactionState
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.reading.batch_labels import CODECS
from spark_jobs.reading.remarks import (
    Remark,
    error,
    log_remarks,
    note,
    order_remarks,
    plural,
    segment_remarks,
    warning,
)
from spark_jobs.reading.visibility import Visibility, last_offsets

_SEGMENT_COLUMNS = (
    "segment", "bytes", "batches", "records", "markers", "first_offset", "last_offset", "max_timestamp",
    "codecs",
)  # fmt: skip
_PARTITION_COLUMNS = (
    "topic", "partition", "segments", "bytes", "batches", "log_start_offset", "last_stable_offset",
    "log_end_offset", "high_watermark", "open_transactions", "remarks", "topic_id",
)  # fmt: skip
_OPEN_COLUMNS = ("producer_id", "producer_epoch", "first_offset", "last_timestamp")


def report_segment(
    segment: Segment, seen: Visibility, *, has_sequences: bool, problems: Iterable[Remark] = ()
) -> Report:
    """One segment alone: transactions may have begun before it and end behind it."""
    return Report(
        path=str(segment.path),
        kind="segment",
        facts=tuple(zip(_SEGMENT_COLUMNS[1:], _segment_row(segment)[1:], strict=True)),
        remarks=(
            *segment_remarks(segment),
            *_open_at_the_end(seen),
            *order_remarks(segment.batches, seen, has_sequences=has_sequences),
            *problems,
        ),
    )


def _open_at_the_end(seen: Visibility) -> Iterator[Remark]:
    if seen.open_txns:
        count = plural(len(seen.open_txns), "open transaction")
        yield note(f"{count} at the end of this segment: a marker may be in a later one")


def _segment_row(segment: Segment) -> tuple[Cell, ...]:
    batches = segment.batches
    is_control = (batches.attributes & CONTROL_FLAG) != 0
    markers = int(np.count_nonzero(is_control))
    records = int(np.maximum(batches.record_count[~is_control], 0).sum(dtype=np.int64))
    offsets = (int(batches.base_offset[0]), int(last_offsets(batches)[-1])) if batches.rows else (None, None)
    newest = int(batches.max_timestamp.max()) if batches.rows else None
    return (
        segment.path.name,
        segment.size,
        batches.rows,
        records,
        markers,
        *offsets,
        newest,
        _codecs(batches),
    )


def _codecs(batches: HeaderColumns) -> str:
    return ", ".join(CODECS[codec] for codec in np.unique(batches.attributes & CODEC_MASK))


def partition_remarks(log: StoredPartition) -> Iterator[Remark]:
    """Everything remarkable about a partition, the files beside its segments included."""
    for segment in log.segments:
        for remark in segment_remarks(segment):
            yield replace(remark, text=f"{segment.path.name}: {remark.text}")
    if log.overlapping:
        files = ", ".join(log.overlapping)
        yield warning(
            f"{plural(sum(log.overlapping.values()), 'batch')} in {files} repeat offsets of segments before "
            "them, as in a copy that was made during a compaction: a broker does not serve them"
        )
    yield from log_remarks(log.batches, log.visibility, has_sequences=not log.is_internal)
    yield from neighbour_remarks(log)


def report_partition(
    log: StoredPartition, tables: Iterable[Table] = (), remarks: Iterable[Remark] = ()
) -> Report:
    """A partition's directory; `tables` and `remarks` say what its records mean, where that is known."""
    seen = log.visibility
    segments = Table(name="segment", columns=_SEGMENT_COLUMNS, rows=tuple(map(_segment_row, log.segments)))
    return Report(
        path=str(log.path),
        kind="partition",
        facts=(
            ("topic", log.topic),
            ("partition", log.partition),
            ("log_start_offset", seen.log_start_offset),
            ("last_stable_offset", seen.last_stable_offset),
            ("log_end_offset", seen.log_end_offset),
            ("high_watermark", log.high_watermark),
            ("topic_id", log.topic_id),
        ),
        tables=(segments, *_open_table(seen), *neighbour_tables(log), *tables),
        remarks=(*partition_remarks(log), *remarks),
    )


def _open_table(seen: Visibility) -> tuple[Table, ...]:
    rows = tuple(
        (txn.producer_id, txn.producer_epoch, txn.first_offset, txn.last_timestamp) for txn in seen.open_txns
    )
    return (Table(name="open_transaction", columns=_OPEN_COLUMNS, rows=rows),) if rows else ()


def report_log_directory(path: Path, logs: Iterable[StoredPartition]) -> Report:
    """A log directory: a row per partition, the remarks of all; one partition at a time is held."""
    clean = (path / CLEAN_SHUTDOWN_FILE).exists()
    remarks = [note("the broker stopped cleanly" if clean else "no mark of a clean shutdown")]
    rows: list[tuple[Cell, ...]] = []
    ids: dict[str | None, set[str]] = {}
    for log in logs:
        found = [replace(remark, text=f"{log.name}: {remark.text}") for remark in partition_remarks(log)]
        rows.append(_partition_row(log, len(found)))
        remarks += found
        ids.setdefault(log.topic, set()).update(filter(None, [log.topic_id]))
    remarks += _several_ids(ids)
    return Report(
        path=str(path),
        kind="log_directory",
        facts=(("partitions", len(rows)),),
        tables=(Table(name="partition", columns=_PARTITION_COLUMNS, rows=tuple(rows)),),
        remarks=tuple(remarks),
    )


def _several_ids(ids: Mapping[str | None, set[str]]) -> Iterator[Remark]:
    """Topics whose partitions are of several logs."""
    for topic, found in ids.items():
        if len(found) > 1:
            yield warning(
                f"{topic}: its partitions have {len(found)} topic ids ({', '.join(sorted(found))}): the "
                "topic was deleted and recreated while this copy was made"
            )


def _partition_row(log: StoredPartition, remarks: int) -> tuple[Cell, ...]:
    seen = log.visibility
    return (
        log.topic,
        log.partition,
        len(log.segments),
        sum(segment.size for segment in log.segments),
        log.batches.rows,
        seen.log_start_offset,
        seen.last_stable_offset,
        seen.log_end_offset,
        log.high_watermark,
        len(seen.open_txns),
        remarks,
        log.topic_id,
    )


# What records of Kafka's own topics mean: transactional ids and their states, groups and their offsets.

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


def coordinator_view(log: StoredPartition) -> tuple[tuple[Table, ...], tuple[Remark, ...]]:
    """Tables and remarks for the two topics whose records are understood; nothing for all others."""
    if log.topic == TRANSACTION_STATE:
        return _transactions_view(log)
    return _offsets_view(log) if log.topic == CONSUMER_OFFSETS else ((), ())


def _transactions_view(log: StoredPartition) -> tuple[tuple[Table, ...], tuple[Remark, ...]]:
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


def _coordinator_entries(log: StoredPartition, problems: list[Remark]) -> Iterator[CoordinatorEntry]:
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


def _offsets_view(log: StoredPartition) -> tuple[tuple[Table, ...], tuple[Remark, ...]]:
    problems: list[Remark] = []
    offsets = group_offsets.fold(_offset_events(log, problems))
    rows = tuple(_offset_row(key, stored, pending) for key, stored, pending in _stored(offsets))
    table = Table(name="consumer_offset", columns=_OFFSET_COLUMNS, rows=rows)
    pending_offsets = sum(len(entries) for entries in offsets.pending.values())
    if pending_offsets:
        problems.append(warning(f"{plural(pending_offsets, 'offset')} pending until their transaction ends"))
    return (table,), tuple(problems)


def _offset_events(log: StoredPartition, problems: list[Remark]) -> Iterator[OffsetCommit | OffsetsMarker]:
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
