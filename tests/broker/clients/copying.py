"""A client by confluent-kafka that reads, processes and writes."""

from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.broker.clients.journal import Outcome, Sent, copy_of
from tests.broker.clients.librdkafka import CALL_SECONDS, QUIET, send, settings_of, with_parking
from tests.broker.clients.workplace import INPUTS, TOPICS, Workplace

TIMEOUT_MS = 30000


class CopyingClient:
    """Reads the inputs, writes each record on, and commits its offsets in the same transaction.

    Librdkafka can wait for a group's coordinator for good, whatever time it is given
    (https://github.com/confluentinc/librdkafka/issues/5456): then this client is killed.
    """

    def __init__(self, work: Workplace, name: str) -> None:
        self.work, self.name = work, name
        self.random = work.random(name)

    def run(self) -> None:
        number = 0
        while not self.work.stopped.is_set():
            number += 1
            self._life(number)

    def _life(self, life: int) -> None:
        """Until something goes wrong: then another consumer starts from the committed offsets."""
        consumer, producer = self._consumer(), self._producer()
        try:
            with_parking(self.work, lambda: producer.init_transactions(CALL_SECONDS))
            number = 0
            while not self.work.stopped.is_set() and number < 8:
                number += 1
                if not self._copy(consumer, producer, f"{self.name}.{life}.{number}"):
                    return
        except KafkaException:
            return
        finally:
            consumer.close()

    def _copy(self, consumer: Consumer, producer: Producer, name: str) -> bool:
        """Whether to continue: after an abort the positions are back at the committed ones."""
        messages = [each for each in consumer.consume(20, timeout=1.0) if not each.error()]
        if not messages:
            return True
        records = [_copied(each, name) for each in messages]
        commits = self.random.random() < 0.8
        try:
            producer.begin_transaction()
            send(producer, records, self.work, name)
            positions = consumer.position(consumer.assignment())
            held = consumer.consumer_group_metadata()
            with_parking(
                self.work, lambda: producer.send_offsets_to_transaction(_known(positions), held, CALL_SECONDS)
            )
            end = producer.commit_transaction if commits else producer.abort_transaction
            with_parking(self.work, lambda: end(CALL_SECONDS))
        except KafkaException:
            self.work.journal.note(name, records, Outcome.UNKNOWN)
            return False
        self.work.journal.note(name, records, Outcome.COMMITTED if commits else Outcome.ABORTED)
        return commits

    def _consumer(self) -> Consumer:
        settings = {
            "bootstrap.servers": self.work.address,
            "group.id": self.name,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "logger": QUIET,
        }
        consumer = Consumer(settings)
        consumer.subscribe(list(INPUTS))
        return consumer

    def _producer(self) -> Producer:
        settings = {"transactional.id": self.name, "transaction.timeout.ms": TIMEOUT_MS}
        return Producer(settings_of(self.work, "gzip", **settings))


def _copied(message: Any, name: str) -> Sent:
    return "out", message.partition() % TOPICS["out"][0], copy_of(message.value(), name)


def _known(positions: list[TopicPartition]) -> list[TopicPartition]:
    return [position for position in positions if position.offset >= 0]
