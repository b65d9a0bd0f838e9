"""`__transaction_state` folded in offset order: the last state of each id, and its history (facts §3.1)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spark_jobs.kafka.errors import CorruptCoordinatorRecord
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kafka.formats.transaction_state import (
    TransactionLogKey,
    TransactionLogValue,
    read_key,
    read_value,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRecord:
    """One record of the log, written in leader epoch `coordinator_epoch`; no value is a tombstone."""

    transactional_id: str
    offset: int
    coordinator_epoch: int
    value: TransactionLogValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableRecord:
    """A value that cannot be read: from here to the next record the id's state is unknown."""

    transactional_id: str
    offset: int
    coordinator_epoch: int
    problem: str


CoordinatorEntry = CoordinatorRecord | UnreadableRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorState:
    """A folded partition: the ids that exist with their last record, and every record of each id in order."""

    current: dict[str, CoordinatorEntry]
    history: dict[str, tuple[CoordinatorEntry, ...]]


def read_entries(
    header: RecordBatchHeader, records: Iterable[LogRecord], *, source: str = "<bytes>"
) -> Iterator[CoordinatorEntry]:
    """The records of a batch; unknown key types are ignored, as a coordinator does."""
    if header.is_control:
        return
    for record in records:
        entry = _read_entry(header, record, source)
        if entry is not None:
            yield entry


def fold(entries: Iterable[CoordinatorEntry]) -> CoordinatorState:
    """The ids after `entries` in offset order: a later record wins, a tombstone removes."""
    current: dict[str, CoordinatorEntry] = {}
    history: dict[str, list[CoordinatorEntry]] = {}
    for entry in entries:
        history.setdefault(entry.transactional_id, []).append(entry)
        if isinstance(entry, CoordinatorRecord) and entry.value is None:
            current.pop(entry.transactional_id, None)
        else:
            current[entry.transactional_id] = entry
    return CoordinatorState(current=current, history={i: tuple(way) for i, way in history.items()})


def current_values(state: CoordinatorState) -> dict[str, TransactionLogValue]:
    """What a coordinator would load."""
    records = (entry for entry in state.current.values() if isinstance(entry, CoordinatorRecord))
    return {record.transactional_id: record.value for record in records if record.value is not None}


def _read_entry(header: RecordBatchHeader, record: LogRecord, source: str) -> CoordinatorEntry | None:
    where = f"{source}, offset {record.offset}"
    if record.key is None:
        raise CorruptCoordinatorRecord(source=where, position=0, expected="a key", found="null")
    key = read_key(record.key, source=where)
    if not isinstance(key, TransactionLogKey):
        return None
    try:
        value = None if record.value is None else read_value(record.value, source=where)
    except CorruptCoordinatorRecord as error:
        return UnreadableRecord(
            transactional_id=key.transactional_id,
            offset=record.offset,
            coordinator_epoch=header.partition_leader_epoch,
            problem=str(error),
        )
    return CoordinatorRecord(
        transactional_id=key.transactional_id,
        offset=record.offset,
        coordinator_epoch=header.partition_leader_epoch,
        value=value,
    )
