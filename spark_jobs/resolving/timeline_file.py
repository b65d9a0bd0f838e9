"""A folded partition of `__transaction_state` as canonical bytes: equal folds are equal files.

JSON lines: a heading, then every transactional id in order. Of an id's last record only what it takes to read
on is kept: its offset, its leader epoch, and whether it was a tombstone or unreadable.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_jobs.config.canonical import canonical_json
from spark_jobs.protocol.checkpoint import EpochEntry
from spark_jobs.protocol.coordinator_history import CoordinatorEntry, CoordinatorRecord, UnreadableRecord
from spark_jobs.protocol.coordinator_log import TransactionState
from spark_jobs.protocol.coordinator_transaction import RESULT_OF_STATE, CoordinatorTransaction
from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.protocol.record_batch import NO_TIMESTAMP
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transaction_timeline import IdTimeline
from spark_jobs.storage.errors import BrokenState

FORMAT = 2
READABLE = (1, FORMAT)
"""Format 1 does not know the time of the newest record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorFold:
    """What a partition of the coordinator's log has told up to (excluding) `end_offset`.

    `settled` names transactions, by id and first record, that are only kept because the next ones follow
    them: nothing of theirs is still to come. `expired` are ids whose last record is a tombstone.
    `newest_timestamp` is the time of the newest record, by the broker's clock, -1 if it is not known.
    """

    end_offset: int = 0
    newest_timestamp: int = NO_TIMESTAMP
    leader_epochs: tuple[EpochEntry, ...] = ()
    timelines: Mapping[str, IdTimeline] = field(default_factory=dict)
    settled: frozenset[tuple[str, int]] = frozenset()
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
        settled=frozenset((line["id"], offset) for line in lines for offset in line["settled"]),
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
        "settled": [
            txn.first_record_offset
            for txn in known.transactions
            if (transactional_id, txn.first_record_offset) in fold.settled
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


def without_settled(data: bytes, settled: Mapping[str, set[int]]) -> bytes:
    """The file of a fold without transactions that are over; `settled` names them by id and first record.

    The client's newest transaction stays: it tells which version the client speaks. An id that has expired
    goes with its last one. Works on the lines themselves, since most of what they hold goes.
    """
    heading, *lines = data.splitlines()
    kept = (_forget(json.loads(line), settled) for line in lines)
    return b"".join((heading, b"\n", *(canonical_json(line) + b"\n" for line in kept if line is not None)))


def _forget(line: dict[str, Any], settled: Mapping[str, set[int]]) -> dict[str, Any] | None:
    over = {*line["settled"], *settled.get(line["id"], ())}
    is_over = [txn[_FIRST_RECORD] in over for txn in line["transactions"]]
    if line["expired"] and all(is_over):
        return None
    own = [place for place, txn in enumerate(line["transactions"]) if _is_clients_own(txn)][-1:]
    kept = [txn for place, txn in enumerate(line["transactions"]) if place in own or not is_over[place]]
    left = [txn[_FIRST_RECORD] for txn in kept if txn[_FIRST_RECORD] in over]
    return {**line, "transactions": kept, "settled": left}


def _is_clients_own(fields: list[Any]) -> bool:
    """As `CoordinatorTransaction.is_clients_own`."""
    return fields[_EPOCH] is not None or fields[_STATE] in _COMMITS
