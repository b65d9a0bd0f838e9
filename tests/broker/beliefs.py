"""Onceover's tables of partitions, producers and transactions compared with a broker's replies."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.sample.broker.producer_state_manager import PRODUCER_ID_EXPIRATION_MS
from tests.broker.admin import (
    READ_COMMITTED,
    ActiveProducer,
    CoordinatorState,
    Tp,
    offsets,
    producers,
    transaction,
    transactional_ids,
)
from tests.broker.wire import Connection

Row = dict[str, Any]
OPEN_STATE = "Ongoing"
DECIDED = {"CompleteCommit": "committed", "CompleteAbort": "aborted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """A broker's replies to all admin requests, at one moment."""

    producers: dict[Tp, dict[int, ActiveProducer]]
    ends: dict[Tp, int]
    stable: dict[Tp, int]
    transactions: tuple[CoordinatorState, ...]


def ask_broker(connection: Connection, partitions: Sequence[Tp]) -> BrokerFacts:
    return BrokerFacts(
        producers={tp: producers(connection, tp) for tp in partitions},
        ends=offsets(connection, partitions),
        stable=offsets(connection, partitions, isolation=READ_COMMITTED),
        transactions=tuple(states(connection)),
    )


def states(connection: Connection) -> list[CoordinatorState]:
    """The coordinator's state of each transactional id."""
    return [transaction(connection, name) for name in transactional_ids(connection)]


def differing_producers(facts: BrokerFacts, rows: Sequence[Row]) -> Iterator[str]:
    """DescribeProducers of every partition against the newest rows of the table `producers`."""
    newest: dict[tuple[str, int, int], Row] = {}
    for row in sorted(rows, key=lambda row: str(row["run_date"])):
        newest[row["topic"], row["partition"], row["producer_id"]] = row
    for tp, theirs in facts.producers.items():
        ours = {key[2]: _as_described(row) for key, row in newest.items() if key[:2] == tp}
        for producer_id in sorted({*theirs, *ours}):
            reported, believed = theirs.get(producer_id), ours.get(producer_id)
            if _differ(reported, believed):
                yield f"{tp}: broker {reported}, Onceover {believed}"


def _differ(reported: ActiveProducer | None, believed: ActiveProducer | None) -> bool:
    """An idle producer may be there or not: a broker expires it by its clock (facts §2.10).

    A log restores such a producer, unless a snapshot is after its last batch.
    """
    if reported is None or believed is None:
        return not all(each is None or _is_idle(each) for each in (reported, believed))
    return reported != believed


def _is_idle(producer: ActiveProducer) -> bool:
    age_ms = time.time() * 1000 - producer.last_timestamp
    return producer.txn_first_offset < 0 and age_ms >= PRODUCER_ID_EXPIRATION_MS


def _as_described(row: Row) -> ActiveProducer:
    def number(name: str) -> int:
        return -1 if row[name] is None else int(row[name])

    return ActiveProducer(
        producer_id=row["producer_id"],
        producer_epoch=number("producer_epoch"),
        last_sequence=number("last_sequence"),
        last_timestamp=number("last_timestamp"),
        coordinator_epoch=number("coordinator_epoch"),
        txn_first_offset=number("txn_first_offset"),
    )


def differing_offsets(facts: BrokerFacts, rows: Sequence[Row]) -> Iterator[str]:
    """Log end and last stable offset against the table `resolved_partitions` of a run."""
    ours = {(row["topic"], row["partition"]): row for row in rows}
    for tp, end in facts.ends.items():
        if not end and tp not in ours:
            continue  # nothing was ever written to it
        reported = end, facts.stable[tp]
        believed = ours[tp]["log_end_offset"], ours[tp]["last_stable_offset"]
        if reported != believed:
            yield f"{tp}: end and last stable offset: broker {reported}, Onceover {believed}"


def differing_transactions(facts: BrokerFacts, rows: Sequence[Row]) -> Iterator[str]:
    """What is open and what hangs, against the undecided rows of the newest run's `transactions`."""
    theirs = {each.transactional_id: each for each in facts.transactions if each.state == OPEN_STATE}
    ours = {
        row["transactional_id"]: _as_coordinated(row)
        for row in rows
        if row["outcome"] == "ongoing" and row["state"] is not None
    }
    for name in sorted({*theirs, *ours}, key=str):
        if theirs.get(name) != ours.get(name):
            yield f"{name}: broker {theirs.get(name)}, Onceover {ours.get(name)}"
    known = {"committed", "aborted", "ongoing", "hanging"}
    yield from (f"{row['sentence']}: {row}" for row in rows if row["outcome"] not in known)
    coordinated = {each.producer_id for each in theirs.values()}
    hanging = {
        (f"{topic}-{partition}", each.producer_id, each.txn_first_offset)
        for (topic, partition), active in facts.producers.items()
        for each in active.values()
        if each.txn_first_offset >= 0 and each.producer_id not in coordinated
    }
    proven = set(_open(rows, "hanging"))
    unproven = set(_open((row for row in rows if row["state"] is None), "ongoing"))
    for where in sorted((hanging - proven - unproven) | (proven - hanging)):
        yield f"{where}: hanging at {'the broker' if where in hanging else 'Onceover'} only"


def differing_decisions(facts: BrokerFacts, rows: Sequence[Row]) -> Iterator[str]:
    """How the last transaction of each id ended, as DescribeTransactions has it, against `transactions`.

    What the coordinator called ended without having written the markers hangs, and is no end.
    """
    ended = [row for row in rows if row["end_timestamp"] is not None and row["transactional_id"] is not None]
    newest = {row["transactional_id"]: row for row in sorted(ended, key=lambda row: row["end_timestamp"])}
    for each in facts.transactions:
        row = newest.get(each.transactional_id, {})
        if each.state in DECIDED and DECIDED[each.state] != row.get("outcome"):
            yield f"{each.transactional_id}: broker {each}, Onceover {row.get('sentence')}"


def _open(rows: Iterable[Row], outcome: str) -> Iterator[tuple[str, int, int]]:
    for row in rows:
        if row["outcome"] == outcome:
            for partition, offset in zip(row["partitions_found"], row["first_offsets"], strict=True):
                yield partition, row["producer_id"], offset


def _as_coordinated(row: Row) -> CoordinatorState:
    return CoordinatorState(
        transactional_id=row["transactional_id"],
        state=row["state"],
        timeout_ms=row["transaction_timeout_ms"],
        start_timestamp=row["start_timestamp"],
        producer_id=row["producer_id"],
        producer_epoch=row["producer_epoch"],
        partitions=tuple(sorted(row["partitions_expected"] or ())),
    )


def differing_records(truth: Sequence[Row], published: Sequence[Row]) -> Iterator[str]:
    """Records that only one side has, or that are not the same in every field; both are in order."""
    theirs = {(row["topic"], row["partition"], row["offset"]): row for row in truth}
    ours = {(row["topic"], row["partition"], row["offset"]): row for row in published}
    if len(ours) != len(published):
        yield f"{len(published) - len(ours)} records are published twice"
    for key in sorted({*theirs, *ours}):
        if theirs.get(key) != ours.get(key):
            yield f"{key}: consumer {theirs.get(key)}, Onceover {ours.get(key)}"
