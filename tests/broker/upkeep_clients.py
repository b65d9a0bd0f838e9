"""Clients that do what others do not: records without key or value, batches as large as they may be."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from confluent_kafka import Producer

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.records import Record
from spark_jobs.sample.broker.producer_state_manager import PRODUCER_ID_EXPIRATION_MS
from tests.broker import requests
from tests.broker.groups import MIXED, OPEN_ONLY, send_offsets
from tests.broker.wire import Connection

COMPACTED, LARGE = "table", "large"
MAX_BATCH = 1_048_588
TOPICS = {
    "pay": (3, "CreateTime"),
    "lat": (1, "LogAppendTime"),
    LARGE: (1, "CreateTime"),
    COMPACTED: (2, "CreateTime"),
}
PARTITIONS = [(topic, number) for topic, (count, _) in TOPICS.items() for number in range(count)]
SECONDS = 240.0
"""Timeout for a broker on a shared host."""


@dataclass
class UpkeepClients:
    """The clients of the maintenance trial; all share one random generator."""

    address: str
    random: Random

    def transact(self, name: str) -> None:
        producer = self._producer(name, **{"transactional.id": name})
        producer.init_transactions(SECONDS)
        for number in range(30):
            producer.begin_transaction()
            self._fill(producer, f"{name}.{number}", self.random.randrange(1, 20))
            producer.flush(SECONDS)
            commits = self.random.random() < 0.7
            (producer.commit_transaction if commits else producer.abort_transaction)(SECONDS)

    def send(self, name: str) -> None:
        producer = self._producer(name)
        self._fill(producer, name, 200)
        producer.flush(SECONDS)
        self._send_largest()

    def _send_largest(self) -> None:
        """A batch as large as it may be: 61 bytes of header, 11 of varints, and a value; not a byte more."""
        producer = self._producer("largest", **{"compression.type": "none"})
        errors: list[object] = []
        for size in (MAX_BATCH - 61 - 11, MAX_BATCH - 61 - 10):
            value = self.random.randbytes(size)
            producer.produce(LARGE, value, on_delivery=lambda error, _: errors.append(error))
            producer.flush(SECONDS)
        assert errors[0] is None, errors
        assert errors[1] is not None, "a batch beyond max.message.bytes was taken"

    def _fill(self, producer: Producer, name: str, count: int) -> None:
        """Few keys, so that compaction finds much; a third of the compacted records are tombstones."""
        for number in range(count):
            key: bytes | None = b"k%d" % self.random.randrange(6)
            value: bytes | None = f"{name}:{number}".encode() * 5
            topic, partition = self.random.choice(PARTITIONS)
            if topic != COMPACTED and self.random.random() < 0.3:
                key = self.random.choice([None, b""])
            if self.random.random() < 0.3:
                value = self.random.choice([None, b""])
            producer.produce(topic, partition=partition, key=key, value=value)

    def _producer(self, name: str, **more: object) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self.address,
                "enable.idempotence": True,
                "compression.type": self.random.choice(["none", "gzip", "snappy", "lz4", "zstd"]),
                "message.max.bytes": 2 * MAX_BATCH,
                "batch.num.messages": 7,
                "log_level": 0,
                **more,
            }
        )

    def return_forgotten(self, connection: Connection) -> None:
        """A producer with records so old that the broker soon forgets it: then any sequence may come."""
        reply = requests.init_producer_id(connection, label="", tid=None, timeout=60000, version=4)["reply"]
        old = int(time.time() * 1000) - 2 * PRODUCER_ID_EXPIRATION_MS
        for number, sequence in enumerate((0, 77, 200)):
            records = [Record(offset_delta=0, timestamp_delta=0, key=b"k1", value=b"old", headers=())]
            raw = build_batch(
                records=records,
                base_timestamp=old + number,
                producer_id=reply["producer_id"],
                producer_epoch=reply["producer_epoch"],
                base_sequence=sequence,
            )
            until(partial(_is_taken, connection, raw), "its producer is forgotten")

    def leave_open(self) -> Producer:
        producer = self._producer("open", **{"transactional.id": "open", "transaction.timeout.ms": 3_000_000})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        self._fill(producer, "open", 40)
        producer.flush(SECONDS)
        for group in (MIXED, OPEN_ONLY):
            send_offsets(producer, self.address, group, 23)
        return producer


def _is_taken(connection: Connection, raw: bytes) -> bool:
    """Whether the broker took the batch: out of order, it does so once it has forgotten the producer."""
    sent = requests.produce(connection, [("pay", 1, raw)], label="", version=9, acks=-1)
    error = sent["parts"][0]["reply"]["error"]
    assert error in {"NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER"}, sent
    return bool(error == "NONE")


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"did not come: {what}")
        time.sleep(0.3)
