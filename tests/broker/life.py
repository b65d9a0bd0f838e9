"""A broker with running clients: killed and restarted in the middle, copied several times."""

import base64
import json
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.broker.admin import ActiveProducer, CoordinatorState, Tp, abort_hanging, producers
from tests.broker.beliefs import OPEN_STATE, BrokerFacts, ask_broker, states
from tests.broker.clients.aio import AioClient
from tests.broker.clients.java import JavaClient, has_compiler
from tests.broker.clients.journal import Entry, Outcome, Sent
from tests.broker.clients.librdkafka import ForgetfulClient
from tests.broker.clients.process import ClientProcess
from tests.broker.clients.workplace import TOPICS, Workplace
from tests.broker.copies import copy_live
from tests.broker.groups import (
    MIXED,
    OPEN_ONLY,
    GroupOffsets,
    ask_groups,
    commit_in_transactions,
    commit_plainly,
    send_offsets,
)
from tests.broker.judge import INTERNAL_PARTITIONS, Broker
from tests.broker.lives import LifeFailed
from tests.broker.truth import create_topics, wait_for_leaders, write_truth
from tests.broker.wire import Connection

SEGMENT_BYTES = 8192
JOIN_SECONDS = 120
LONG_TIMEOUT_MS = 3_000_000
SETTLE_SECONDS = 180
OVERRIDES = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
PARTITIONS = [(topic, number) for topic, (count, _) in TOPICS.items() for number in range(count)]
OFFSETS_PARTITIONS = [("__consumer_offsets", number) for number in range(INTERNAL_PARTITIONS)]


def _place_of(thread: threading.Thread) -> str:
    """The lines of clients' code that a thread is at."""
    frame = sys._current_frames().get(thread.ident or 0)
    lines = traceback.extract_stack(frame) if frame else []
    return " > ".join(f"{each.name}:{each.lineno}" for each in lines if "clients" in each.filename)


Place = tuple[str, int, int]
"""A record by topic, partition and offset."""


def start_clients(clients: Sequence[Any], failures: list[BaseException]) -> list[threading.Thread]:
    """Runs each client in a thread of its own; an exception that ends one is added to `failures`."""
    threads = [
        threading.Thread(target=_run, args=(client, failures), daemon=True, name=client.name)
        for client in clients
    ]
    for thread in threads:
        thread.start()
    return threads


def _run(client: Any, failures: list[BaseException]) -> None:
    try:
        client.run()
    except BaseException as error:  # noqa: BLE001 - reported by the trial, not by a thread
        failures.append(error)


def await_clients(threads: Sequence[threading.Thread], failures: Sequence[BaseException]) -> None:
    """Raises `LifeFailed` if a client failed, or did not stop in time."""
    deadline = time.monotonic() + JOIN_SECONDS
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    stuck = [f"{thread.name} {_place_of(thread)}" for thread in threads if thread.is_alive()]
    for failure in failures:
        raise LifeFailed(f"a client gave up: {failure!r}") from failure
    if stuck:
        raise LifeFailed(f"clients did not stop in {JOIN_SECONDS} s: {', '.join(stuck)}")


@dataclass
class Life:
    """One broker, its clients, and the copies: `live`, `killed`, `quiet`, and `data` after a clean stop."""

    place: Path
    seed: int
    work_seconds: float
    broker: Broker = field(init=False)
    work: Workplace = field(init=False)
    failures: list[BaseException] = field(default_factory=list)
    hanging: int = 0
    groups: GroupOffsets = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.broker = Broker((self.place / "broker").resolve(), OVERRIDES)
        self.work = Workplace(address=self.broker.address, seed=self.seed)

    def copy(self, name: str) -> Path:
        return self.place / name

    def live(self) -> BrokerFacts:
        """Runs everything; returns the broker's replies once all clients have stopped."""
        random = Random(self.seed)
        self.broker.format()
        self.broker.start()
        create_topics(self.broker.address, TOPICS, SEGMENT_BYTES)
        threads = self._start_clients()
        time.sleep(self.work_seconds)
        copy_live(self.broker.data, self.copy("live"))
        self._restart(kill=random.random() < 0.75)
        time.sleep(self.work_seconds)
        self.work.stopped.set()
        await_clients(threads, self.failures)
        return self._end_quietly(has_operator=random.random() < 0.5)

    def _start_clients(self) -> list[threading.Thread]:
        work = self.work
        clients: list[Any] = [
            ClientProcess(work, "transactional", "rd-1"),
            ClientProcess(work, "undecided", "rd-2"),
            ClientProcess(work, "idempotent", "idem"),
            ClientProcess(work, "forgetful", "late"),
            ClientProcess(work, "zombie", "zombie"),
            ClientProcess(work, "copying", "copier"),
            AioClient(work, "aio"),
            *([JavaClient(work, "java")] if has_compiler() else []),
        ]
        return start_clients(clients, self.failures)

    def _restart(self, *, kill: bool) -> None:
        self.broker.kill() if kill else self.broker.stop()
        copy_live(self.broker.data, self.copy("killed"))
        self.broker.start()
        wait_for_leaders(self.broker.address)

    def _end_quietly(self, *, has_operator: bool) -> BrokerFacts:
        """One transaction stays open, everything else is decided; then the broker is asked, and stopped.

        Without an operator, consumers stay where a transaction hangs.
        """
        keeper = ForgetfulClient(self.work, "open", timeout_ms=LONG_TIMEOUT_MS).begin(1)
        commit_plainly(self.broker.address)
        commit_in_transactions(self.broker.address)
        for group in (MIXED, OPEN_ONLY):
            send_offsets(keeper, self.broker.address, group, 23)
        connection = Connection(self.broker.port)
        await_decisions(connection)
        hanging = find_hanging(connection, PARTITIONS)
        # Without its marker a group's offset is pending for good, though the coordinator has decided on it.
        pending = find_hanging(connection, OFFSETS_PARTITIONS)
        for tp, producer in [*pending, *(hanging if has_operator else ())]:
            abort_hanging(connection, tp, producer)
        self.hanging = len(hanging)
        write_truth(self.broker.address, TOPICS, self.place)
        facts = ask_broker(connection, PARTITIONS)
        self.groups = ask_groups(self.broker.address, PARTITIONS)
        copy_live(self.broker.data, self.copy("quiet"))
        connection.close()
        self.broker.stop()
        copy_live(self.broker.data, self.copy("data"))
        keeper.purge()
        return facts

    def truth(self, name: str = "truth.jsonl") -> list[dict[str, Any]]:
        """What a consumer got, read_committed unless asked for the other."""
        lines = (self.place / name).read_text().splitlines()
        return [json.loads(line) for line in lines]

    def hidden(self, facts: BrokerFacts) -> set[Sent]:
        """The values that an open transaction keeps from consumers."""
        return {
            _sent(row)
            for row in self.truth("truth_uncommitted.jsonl")
            if row["offset"] >= facts.stable[row["topic"], row["partition"]]
        }

    def kept(self, facts: BrokerFacts) -> tuple[list[Entry], set[Place]]:
        """The clients' entries, without the transactions that the broker itself broke, and their records.

        A coordinator that is restarting, or about to stop, may call a transaction committed without having
        written its markers (facts §3.7): its records are in the log, but no consumer ever gets them.
        They do get an aborted one, if the producer's next transaction is committed.
        """
        given = {_sent(row) for row in self.truth()}
        places = {_sent(row): place_of(row) for row in self.truth("truth_uncommitted.jsonl")}
        broken_promises = {
            Outcome.COMMITTED: places.keys() - given - self.hidden(facts),
            Outcome.ABORTED: given,
            Outcome.UNKNOWN: set[Sent](),
        }
        kept: list[Entry] = []
        broken: set[Place] = set()
        for each in self.work.journal.entries:
            wrong = broken_promises[each.outcome].intersection(each.values)
            broken.update(places[sent] for sent in wrong)
            if not wrong:
                kept.append(each)
        return kept, broken


def place_of(row: dict[str, Any]) -> Place:
    return row["topic"], row["partition"], row["offset"]


def _sent(row: dict[str, Any]) -> Sent:
    return row["topic"], row["partition"], base64.b64decode(row["value"])


def await_decisions(connection: Connection) -> None:
    """Until no transaction is about to end: none prepared, none that will time out soon."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while pending := [state for state in states(connection) if _is_pending(state)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"still undecided: {pending}")
        time.sleep(0.3)


def find_hanging(connection: Connection, partitions: Sequence[Tp]) -> list[tuple[Tp, ActiveProducer]]:
    """Open transactions on partitions that the coordinator no longer has.

    A coordinator that times a transaction out right after a restart may not know the partitions' leaders yet:
    it calls the transaction ended and writes no marker (facts §3.7).
    """
    is_open = {each.producer_id for each in states(connection) if each.state == OPEN_STATE}
    return [
        (tp, producer)
        for tp in partitions
        for producer in producers(connection, tp).values()
        if producer.txn_first_offset >= 0 and producer.producer_id not in is_open
    ]


def _is_pending(state: CoordinatorState) -> bool:
    is_open = state.state == OPEN_STATE and state.timeout_ms < LONG_TIMEOUT_MS
    return is_open or state.state.startswith("Prepare")
