"""A broker under load whose log directory is copied at several moments, to build faulty copies from.

The broker's process is stopped by a signal while a moment is copied, so each one is exact. A copy that a tool
made file by file from the running broker consists of files of several such moments.
"""

import shutil
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.broker.clients.aio import AioClient
from tests.broker.clients.java import JavaClient, has_compiler
from tests.broker.clients.librdkafka import ForgetfulClient
from tests.broker.clients.process import ClientProcess
from tests.broker.clients.workplace import TOPICS, Workplace
from tests.broker.copies import copy_live
from tests.broker.judge import Broker
from tests.broker.life import (
    LONG_TIMEOUT_MS,
    OVERRIDES,
    SEGMENT_BYTES,
    await_clients,
    await_decisions,
    find_hanging,
    start_clients,
)
from tests.broker.lives import LifeFailed
from tests.broker.truth import admin, create_topics, read_truth
from tests.broker.upkeep_clients import until
from tests.broker.wire import Connection

MOMENTS = 10
SECONDS_BETWEEN = 1.2
RECREATED = "again"
RECREATED_TOPIC = {RECREATED: (1, "CreateTime")}
CALL_SECONDS = 60.0
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The result of a watched life.

    `moments` are copies of the log directory in order of time, the last one after a clean stop. `truth` is
    what a read_committed consumer got at the end, `before` what one got of the topic that was deleted.
    """

    moments: tuple[Path, ...]
    truth: Rows
    before: Rows


@dataclass
class WatchedLife:
    """Clients at work, one topic deleted and recreated halfway, `MOMENTS` copies on the way."""

    place: Path
    seed: int
    broker: Broker = field(init=False)
    work: Workplace = field(init=False)
    failures: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.broker = Broker((self.place / "broker").resolve(), OVERRIDES)
        self.work = Workplace(address=self.broker.address, seed=self.seed)

    def live(self) -> Watched:
        self.broker.format()
        self.broker.start()
        address = self.broker.address
        create_topics(address, {**TOPICS, **RECREATED_TOPIC}, SEGMENT_BYTES)
        self._fill_recreated("first", 400)
        threads = self._start_clients()
        moments = [self._moment(number) for number in range(MOMENTS // 2)]
        before = read_truth(address, RECREATED_TOPIC)
        self._recreate()
        moments += [self._moment(number) for number in range(MOMENTS // 2, MOMENTS)]
        self.work.stopped.set()
        await_clients(threads, self.failures)
        keeper = ForgetfulClient(self.work, "open", timeout_ms=LONG_TIMEOUT_MS).begin(1)
        connection = Connection(self.broker.port)
        await_decisions(connection)
        partitions = [(topic, number) for topic, (count, _) in TOPICS.items() for number in range(count)]
        if hanging := find_hanging(connection, partitions):
            raise LifeFailed(f"the broker left transactions hanging without having been killed: {hanging}")
        connection.close()
        truth = read_truth(address, {**TOPICS, **RECREATED_TOPIC})
        self.broker.stop()
        moments.append(copy_live(self.broker.data, self.place / "whole"))
        keeper.purge()
        return Watched(moments=tuple(moments), truth=truth, before=before)

    def _start_clients(self) -> list[threading.Thread]:
        work = self.work
        clients: list[Any] = [
            ClientProcess(work, "transactional", "rd-1"),
            ClientProcess(work, "undecided", "rd-2"),
            ClientProcess(work, "idempotent", "idem"),
            ClientProcess(work, "forgetful", "late"),
            ClientProcess(work, "zombie", "zombie"),
            AioClient(work, "aio"),
            *([JavaClient(work, "java")] if has_compiler() else []),
        ]
        return start_clients(clients, self.failures)

    def _moment(self, number: int) -> Path:
        time.sleep(SECONDS_BETWEEN)
        process = self.broker.process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            return copy_live(self.broker.data, self.place / f"moment-{number:02d}")
        finally:
            process.send_signal(signal.SIGCONT)

    def _recreate(self) -> None:
        """Deletes the topic and recreates it, with other records from offset 0 on."""
        client = admin(self.broker.address)
        client.delete_topics([RECREATED])[RECREATED].result(CALL_SECONDS)
        until(lambda: RECREATED not in client.list_topics(timeout=30).topics, "the topic is gone")
        create_topics(self.broker.address, RECREATED_TOPIC, SEGMENT_BYTES)
        self._fill_recreated("second", 600)

    def _fill_recreated(self, name: str, count: int) -> None:
        producer = Producer(
            {"bootstrap.servers": self.broker.address, "enable.idempotence": True, "log_level": 0}
        )
        for number in range(count):
            producer.produce(RECREATED, value=f"{name}:{number}:{'x' * 60}".encode(), partition=0)
            if number % 50 == 0:
                producer.flush(CALL_SECONDS)
        if producer.flush(CALL_SECONDS):
            raise LifeFailed(f"the broker did not take all records of {RECREATED}")


def watched_life(place: Path, seed: int) -> Watched:
    """Runs the life, and stops its broker in any case."""
    life = WatchedLife(place, seed)
    try:
        return life.live()
    finally:
        life.broker.kill()
        shutil.rmtree(life.broker.data, ignore_errors=True)
