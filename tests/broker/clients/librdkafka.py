"""Clients by confluent-kafka: transactions (TV1), idempotence, zombies, timeouts."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaException, Producer

from tests.broker.clients.journal import Outcome, Sent
from tests.broker.clients.workplace import CODECS, Workplace, some_headers, some_key, some_records

QUIET = logging.getLogger("librdkafka")
"""No log: fenced producers are intended here, and librdkafka would log each."""
QUIET.setLevel(logging.CRITICAL + 1)
TIMEOUT_SECONDS = 60.0
LAST_SECONDS = 20.0
"""Timeout of a client that was stopped: the outcome of calls that take longer is unknown."""
CALL_SECONDS = 10.0
SHORT_TIMEOUT_MS = 2000


def settings_of(work: Workplace, codec: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": work.address,
        "enable.idempotence": True,
        "compression.type": codec,
        "linger.ms": 2,
        "logger": QUIET,
        "reconnect.backoff.max.ms": 500,
        **more,
    }


def with_parking(work: Workplace, call: Callable[[], Any]) -> None:
    """`call` again while the client says that it may be tried again: the broker may be dead for a while."""
    began = time.monotonic()
    while True:
        try:
            call()
        except KafkaException as error:
            completion_wait = LAST_SECONDS if work.stopped.is_set() else TIMEOUT_SECONDS
            if not error.args[0].retriable() or time.monotonic() > began + completion_wait:
                raise
        else:
            return


def send(producer: Producer, records: Sequence[Sent], work: Workplace, name: str) -> None:
    random = work.random(name)
    for topic, partition, value in records:
        producer.produce(
            topic, partition=partition, value=value, key=some_key(random), headers=some_headers(random)
        )
        producer.poll(0)


class TransactionalClient:
    """Commits and aborts; starts anew, and so fences itself, after whatever it cannot mend."""

    def __init__(self, work: Workplace, name: str, *, commits: float = 0.7) -> None:
        self.work, self.name, self.commits = work, name, commits
        self.random = work.random(name)

    def run(self) -> None:
        number, producer = 0, None
        while not self.work.stopped.is_set():
            producer = producer or self._begin_life()
            if producer is None:
                continue
            number += 1
            if not self._transaction(producer, f"{self.name}.{number}"):
                producer = None

    def _begin_life(self) -> Producer | None:
        """None if the broker did not answer for too long, as on a machine with much else to do."""
        settings = {"transactional.id": self.name, "transaction.timeout.ms": 60000}
        producer = Producer(settings_of(self.work, self.random.choice(CODECS), **settings))
        try:
            with_parking(self.work, lambda: producer.init_transactions(CALL_SECONDS))
        except KafkaException:
            return None
        return producer

    def _transaction(self, producer: Producer, name: str) -> bool:
        """Whether the producer is good for another one."""
        records, commits = some_records(self.random, name), self.random.random() < self.commits
        try:
            producer.begin_transaction()
            send(producer, records, self.work, name)
            end = producer.commit_transaction if commits else producer.abort_transaction
            with_parking(self.work, lambda: end(CALL_SECONDS))
        except (KafkaException, BufferError):
            self.work.journal.note(name, records, Outcome.UNKNOWN)
            return False
        self.work.journal.note(name, records, Outcome.COMMITTED if commits else Outcome.ABORTED)
        return self.random.random() < 0.9


class ForgetfulClient:
    """Begins transactions and never ends them: the coordinator does, after their timeout."""

    def __init__(self, work: Workplace, name: str, *, timeout_ms: int = SHORT_TIMEOUT_MS) -> None:
        self.work, self.name, self.timeout_ms = work, name, timeout_ms

    def run(self) -> None:
        number = 0
        while not self.work.stopped.is_set():
            number += 1
            self.begin(number)
            self.work.stopped.wait(self.timeout_ms / 1000)

    def begin(self, number: int) -> Producer:
        """An open transaction, without a producer once this one is closed."""
        name = f"{self.name}.{number}"
        records = some_records(self.work.random(name), name)
        settings = {"transactional.id": name, "transaction.timeout.ms": self.timeout_ms}
        producer = Producer(settings_of(self.work, "lz4", **settings))
        try:
            with_parking(self.work, lambda: producer.init_transactions(CALL_SECONDS))
            producer.begin_transaction()
            send(producer, records, self.work, name)
            producer.flush(CALL_SECONDS)
        except KafkaException:
            pass
        self.work.journal.note(name, records, Outcome.ABORTED)
        return producer


class ZombieClient:
    """Two producers of one id: the second fences the first, which then tries to commit."""

    def __init__(self, work: Workplace, name: str) -> None:
        self.work, self.name = work, name

    def run(self) -> None:
        number = 0
        while not self.work.stopped.is_set():
            number += 1
            self._fence(f"{self.name}.{number}")

    def _fence(self, name: str) -> None:
        records = some_records(self.work.random(name), name)
        first, second = self._producer(), self._producer()
        outcome = Outcome.UNKNOWN
        try:
            with_parking(self.work, lambda: first.init_transactions(CALL_SECONDS))
            first.begin_transaction()
            send(first, records, self.work, name)
            first.flush(CALL_SECONDS)
            with_parking(self.work, lambda: second.init_transactions(CALL_SECONDS))
            first.commit_transaction(CALL_SECONDS)
        except KafkaException as error:
            is_fenced = error.args[0].code() in FENCED
            outcome = Outcome.ABORTED if is_fenced else Outcome.UNKNOWN
        self.work.journal.note(name, records, outcome)

    def _producer(self) -> Producer:
        return Producer(settings_of(self.work, "zstd", **{"transactional.id": self.name}))


FENCED = {-144, 47, 90}
"""Librdkafka's own name for a fenced producer, INVALID_PRODUCER_EPOCH and PRODUCER_FENCED."""


class IdempotentClient:
    """Sends without transactions; every acknowledged record counts."""

    def __init__(self, work: Workplace, name: str) -> None:
        self.work, self.name = work, name
        self.random = work.random(name)

    def run(self) -> None:
        producer = Producer(settings_of(self.work, self.random.choice(CODECS)))
        number = 0
        while not self.work.stopped.is_set():
            number += 1
            for topic, partition, value in some_records(self.random, f"{self.name}.{number}"):
                sent = (topic, partition, value)
                producer.produce(topic, partition=partition, value=value, on_delivery=self._noting(sent))
            producer.poll(0.05)
            self.work.stopped.wait(0.1)
        producer.flush(LAST_SECONDS)

    def _noting(self, sent: Sent) -> Callable[[Any, Any], None]:
        def note(error: Any, _message: Any) -> None:
            outcome = Outcome.UNKNOWN if error else Outcome.COMMITTED
            self.work.journal.note(self.name, [sent], outcome)

        return note
