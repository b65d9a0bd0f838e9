"""The transactional ids of a `__transaction_state` partition: as a file of the lake, and as a table.

The file is canonical, so equal folds are equal files. It holds JSON lines: a heading, then every
transactional id in order. Of an id's last record only what it takes to read on is kept: its offset,
its leader epoch, and whether it was a tombstone or unreadable.
"""

import gc
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.config.canonical import canonical_json
from spark_jobs.kafka.coordinator.history import CoordinatorEntry, CoordinatorRecord, UnreadableRecord
from spark_jobs.kafka.coordinator.timeline import (
    RESULT_OF_STATE,
    CoordinatorTransaction,
    IdTimeline,
    is_unreadable,
)
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.formats.checkpoints import EpochEntry
from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP
from spark_jobs.kafka.formats.transaction_state import TransactionState
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.errors import BrokenState
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.states import get_content, put_content
from spark_jobs.tables.rebuild import TIMELINES

FORMAT = 2
READABLE = (1, FORMAT)
"""Format 1 does not know the time of the newest record."""
_COMPLETED = "settled"
"""The key of completed transactions in both formats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFold:
    """What a partition of the coordinator's log holds up to (excluding) `end_offset`.

    `completed` names transactions, by id and first record, that are only kept because the next ones follow
    them: nothing of theirs is expected any more. `expired` are ids whose last record is a tombstone.
    `newest_timestamp` is the time of the newest record, by the broker's clock, -1 if it is not known.
    """

    end_offset: int = 0
    newest_timestamp: int = NO_TIMESTAMP
    leader_epochs: tuple[EpochEntry, ...] = ()
    timelines: Mapping[str, IdTimeline] = field(default_factory=dict)
    completed: frozenset[tuple[str, int]] = frozenset()
    expired: frozenset[str] = frozenset()


def write_fold(fold: CoordinatorFold) -> bytes:
    """The file of `fold`."""
    heading = {
        "format": FORMAT,
        "end_offset": fold.end_offset,
        "newest_timestamp": fold.newest_timestamp,
        "leader_epochs": [[entry.epoch, entry.start_offset] for entry in fold.leader_epochs],
    }
    lines = (_write_id(known, fold) for _, known in sorted(fold.timelines.items()))
    return b"".join(canonical_json(line) + b"\n" for line in (heading, *lines))


def read_fold(data: bytes, *, source: str = "<bytes>") -> CoordinatorFold:
    """The fold in `data`; `source` names it in messages."""
    heading, *lines = [json.loads(line) for line in data.splitlines()]
    if heading["format"] not in READABLE:
        readable = " and ".join(map(str, READABLE))
        raise BrokenState(f"{source}: timelines of format {heading['format']}, this version reads {readable}")
    return CoordinatorFold(
        end_offset=heading["end_offset"],
        newest_timestamp=heading.get("newest_timestamp", NO_TIMESTAMP),
        leader_epochs=tuple(EpochEntry(epoch=e, start_offset=o) for e, o in heading["leader_epochs"]),
        timelines={line["id"]: _read_id(line) for line in lines},
        completed=frozenset((line["id"], offset) for line in lines for offset in line[_COMPLETED]),
        expired=frozenset(line["id"] for line in lines if line["expired"]),
    )


def _write_id(known: IdTimeline, fold: CoordinatorFold) -> dict[str, Any]:
    transactional_id = known.transactional_id
    return {
        "id": transactional_id,
        "expired": transactional_id in fold.expired,
        "producer_ids": known.producer_ids,
        "current": _write_current(known.current),
        "transactions": [_write_transaction(txn) for txn in known.transactions],
        _COMPLETED: [
            txn.first_record_offset
            for txn in known.transactions
            if (transactional_id, txn.first_record_offset) in fold.completed
        ],
    }


def _read_id(line: dict[str, Any]) -> IdTimeline:
    return IdTimeline(
        transactional_id=line["id"],
        transactions=tuple(_read_transaction(line["id"], fields) for fields in line["transactions"]),
        producer_ids=tuple(line["producer_ids"]),
        current=_read_current(line["id"], line["current"]),
    )


def _write_current(entry: CoordinatorEntry | None) -> list[Any] | None:
    if entry is None:
        return None
    problem = entry.problem if isinstance(entry, UnreadableRecord) else None
    return [entry.offset, entry.coordinator_epoch, problem]


def _read_current(transactional_id: str, fields: list[Any] | None) -> CoordinatorEntry | None:
    if fields is None:
        return None
    offset, coordinator_epoch, problem = fields
    if problem is not None:
        return UnreadableRecord(
            transactional_id=transactional_id,
            offset=offset,
            coordinator_epoch=coordinator_epoch,
            problem=problem,
        )
    return CoordinatorRecord(
        transactional_id=transactional_id, offset=offset, coordinator_epoch=coordinator_epoch, value=None
    )


_PLAIN = tuple(
    name
    for name in CoordinatorTransaction.__slots__
    if name not in {"transactional_id", "state", "topic_partitions", "coordinator_epochs"}
)


def _write_transaction(txn: CoordinatorTransaction) -> list[Any]:
    partitions = None if txn.topic_partitions is None else _sorted(txn.topic_partitions)
    plain = [getattr(txn, name) for name in _PLAIN]
    return [int(txn.state), partitions, txn.coordinator_epochs, *plain]


def _sorted(partitions: Iterable[TopicPartition]) -> list[list[Any]]:
    return [[topic, partition] for topic, partition in sorted(partitions)]


def _read_transaction(transactional_id: str, fields: list[Any]) -> CoordinatorTransaction:
    state, partitions, coordinator_epochs, *plain = fields
    known = None if partitions is None else frozenset(TopicPartition(*each) for each in partitions)
    return CoordinatorTransaction(
        transactional_id=transactional_id,
        state=TransactionState(state),
        topic_partitions=known,
        coordinator_epochs=tuple(coordinator_epochs),
        **dict(zip(_PLAIN, plain, strict=True)),
    )


_STATE, _BEFORE_PLAIN = 0, 3
_EPOCH = _BEFORE_PLAIN + _PLAIN.index("producer_epoch")
_FIRST_RECORD = _BEFORE_PLAIN + _PLAIN.index("first_record_offset")
_COMMITS = {state for state, result in RESULT_OF_STATE.items() if result is TransactionResult.COMMIT}


def without_completed(data: bytes, completed: Mapping[str, set[int]]) -> bytes:
    """The file of a fold without completed transactions; `completed` names them by id and first record.

    The client's newest transaction stays: it shows the client's transaction version. An id that has expired
    goes with its last one. Works on the lines themselves, since most of what they hold goes.
    """
    heading, *lines = data.splitlines()
    kept = (_pruned(json.loads(line), completed) for line in lines)
    return b"".join((heading, b"\n", *(canonical_json(line) + b"\n" for line in kept if line is not None)))


def _pruned(line: dict[str, Any], completed: Mapping[str, set[int]]) -> dict[str, Any] | None:
    over = {*line[_COMPLETED], *completed.get(line["id"], ())}
    is_over = [txn[_FIRST_RECORD] in over for txn in line["transactions"]]
    if line["expired"] and all(is_over):
        return None
    own = [place for place, txn in enumerate(line["transactions"]) if _is_clients_own(txn)][-1:]
    kept = [txn for place, txn in enumerate(line["transactions"]) if place in own or not is_over[place]]
    left = [txn[_FIRST_RECORD] for txn in kept if txn[_FIRST_RECORD] in over]
    return {**line, "transactions": kept, _COMPLETED: left}


def _is_clients_own(fields: list[Any]) -> bool:
    """As `CoordinatorTransaction.is_clients_own`."""
    return fields[_EPOCH] is not None or fields[_STATE] in _COMMITS


_SAME = (
    "producer_epoch",
    "marker_epoch",
    "transaction_timeout_ms",
    "start_timestamp_ms",
    "last_update_timestamp_ms",
    "end_timestamp_ms",
    "client_transaction_version",
    "is_epoch_bumped",
    "is_cut",
    "has_known_past",
    "first_record_offset",
    "last_record_offset",
)
"""Columns that are called as the fields are, and hold just their values."""
_NOTHING = (None,) * (len(_SAME) + 4)
_NAMES = (
    "producer_id",
    "transactional_id",
    "is_unreadable",
    "is_news",
    "state",
    "topics",
    "partitions",
    "coordinator_epochs",
    *_SAME,
)


VALUES_AT_A_TIME = 1 << 14
"""Rows that become Python values at a time: as values they take many times the memory of the columns."""
_STATES = {int(state): state for state in TransactionState}
_READ = (
    "producer_id",
    "transactional_id",
    "coordinator_partition",
    "is_news",
    "state",
    "topics",
    "partitions",
    "coordinator_epochs",
    *_SAME,
)


def timelines_table(fold: CoordinatorFold, partition: int, *, folded_before: int) -> pa.Table:
    """The transactions of `fold` that are not completed, and the owners of producer ids.

    Records from `folded_before` on are this run's.
    """
    rows = [
        row for known in fold.timelines.values() for row in _rows_of(known, fold.completed, folded_before)
    ]
    columns: dict[str, Any] = dict(zip(_NAMES, zip(*rows, strict=True), strict=True)) if rows else {}
    arrays = {
        name: pa.array(columns.get(name, ()), TIMELINES.schema.field(name).type)
        for name in TIMELINES.schema.names
        if name != "coordinator_partition"
    }
    numbers = np.full(len(rows), partition, dtype=np.int32)
    return TIMELINES.cast(pa.table({**arrays, "coordinator_partition": numbers}))


Row = tuple[Any, ...]


def _rows_of(known: IdTimeline, completed: frozenset[tuple[str, int]], folded_before: int) -> Iterator[Row]:
    name, unreadable = known.transactional_id, is_unreadable(known)
    for producer_id in known.producer_ids:
        yield (producer_id, name, unreadable, False, *_NOTHING)
    for txn in known.transactions:
        if (name, txn.first_record_offset) not in completed:
            is_news = txn.last_record_offset >= folded_before
            yield (txn.producer_id, name, unreadable, is_news, *_values(txn))


def _values(txn: CoordinatorTransaction) -> Row:
    listed = None if txn.topic_partitions is None else sorted(txn.topic_partitions)
    return (
        int(txn.state),
        None if listed is None else [topic for topic, _ in listed],
        None if listed is None else [partition for _, partition in listed],
        txn.coordinator_epochs,
        *(getattr(txn, field) for field in _SAME),
    )


def transactions_in(rows: pa.Table) -> Iterator[tuple[CoordinatorTransaction, int, bool]]:
    """The transactions of `rows`, each with its coordinator's partition and whether this run changed it."""
    for batch in rows.to_batches(VALUES_AT_A_TIME):
        yield from _transactions_in(batch)


def _transactions_in(rows: pa.RecordBatch) -> Iterator[tuple[CoordinatorTransaction, int, bool]]:
    columns = (rows.column(name).to_pylist() for name in _READ)
    for producer_id, owner, coordinator, is_news, state, topics, numbers, epochs, *same in zip(
        *columns, strict=True
    ):
        txn = CoordinatorTransaction(
            transactional_id=owner,
            producer_id=producer_id,
            state=_STATES[state],
            topic_partitions=_partitions(topics, numbers),
            coordinator_epochs=tuple(epochs),
            **dict(zip(_SAME, same, strict=True)),
        )
        yield txn, coordinator, is_news


def _partitions(topics: Iterable[str] | None, numbers: Iterable[int]) -> frozenset[TopicPartition] | None:
    return None if topics is None else _remembered(tuple(topics), tuple(numbers))


@lru_cache(maxsize=1 << 16)
def _remembered(topics: tuple[str, ...], numbers: tuple[int, ...]) -> frozenset[TopicPartition]:
    """Lists of partitions come again and again."""
    return frozenset(map(TopicPartition, topics, numbers))


@contextmanager
def gc_paused() -> Iterator[None]:
    """Creates millions of small values without garbage collection: none refers back, and it costs a third."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# Completed transactions are pruned from the folds.

COORDINATOR = "coordinator_partition"
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field(COORDINATOR, pa.int32(), nullable=False),
    pa.field("transactional_id", pa.string()),
    pa.field("first_record_offset", pa.int64(), nullable=False),
]
COMPLETED = pa.schema(_FIELDS)
"""Transactions of a coordinator's log of which neither data nor marker nor publication is to come."""
_FOLD_FIELDS: "list[pa.Field[Any]]" = [
    pa.field(COORDINATOR, pa.int32(), nullable=False),
    pa.field("fold", pa.string(), nullable=False),
]
FOLD_ROWS = pa.schema(_FOLD_FIELDS)
"""The folds to prune: partition of `__transaction_state`, digest."""


def fold_rows(folds: tuple[tuple[int, str], ...]) -> Iterator[pa.Table]:
    """Rows of `FOLD_ROWS`."""
    yield pa.Table.from_pylist([{COORDINATOR: number, "fold": fold} for number, fold in folds], FOLD_ROWS)


def prune_fold(lake: ObjectStore, partition: int, completed: pa.Table, fold: pa.Table) -> tuple[int, str]:
    """The partition with the digest of its fold for the next run; `completed` are rows of `COMPLETED`."""
    by_id: dict[str, set[int]] = {}
    columns = (completed.column(name).to_pylist() for name in ("transactional_id", "first_record_offset"))
    for name, offset in zip(*columns, strict=True):
        by_id.setdefault(name, set()).add(offset)
    digests: list[Any] = fold.column("fold").to_pylist()
    return partition, put_content(lake, without_completed(get_content(lake, digests[0]), by_id))
