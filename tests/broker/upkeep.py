"""A broker that keeps its logs small and forgets: compaction, deleted records, expired ids, an upgrade.

Its clients do what the others do not: records without key or value, and batches as large as they may be.
"""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from spark_jobs.protocol.batch_builder import build_batch
from spark_jobs.protocol.checkpoint import read_offsets
from spark_jobs.protocol.log_files import CLEANER_OFFSET_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT
from spark_jobs.protocol.records import Record
from tests.broker import requests
from tests.broker.admin import READ_COMMITTED, Tp, delete_records, offsets, transactional_ids
from tests.broker.beliefs import BrokerFacts, ask_broker
from tests.broker.clients.java import JavaClient
from tests.broker.clients.workplace import Workplace
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
from tests.broker.judge import Broker, java_command
from tests.broker.life import await_decisions
from tests.broker.truth import admin, create_topics, write_truth
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
SEGMENT_BYTES = 4096
EXPIRATION_MS = 86_400_000
SECONDS = 240.0
"""Patience with a broker that has to share its machine."""
OVERRIDES = {
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "500",
    "log.flush.start.offset.checkpoint.interval.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "producer.id.expiration.check.interval.ms": "200",
    "transactional.id.expiration.ms": "10000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
CLEANED_OFTEN = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "delete.retention.ms": "1000",
    "internal.segment.bytes": str(SEGMENT_BYTES),
    "retention.ms": "-1",
}


@dataclass
class Upkeep:
    """One broker's life; copies: `early`, before anything was cleaned, `quiet`, and `data` after the stop."""

    place: Path
    seed: int
    broker: Broker = field(init=False)
    random: Random = field(init=False)
    work: Workplace = field(init=False)
    groups: GroupOffsets = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.broker = Broker(
            (self.place / "broker").resolve(), OVERRIDES, features={"transaction.version": 1}
        )
        self.work = Workplace(address=self.broker.address, seed=self.seed)

    def live(self) -> BrokerFacts:
        """The whole of it; returns what the broker said when all was quiet."""
        self.broker.format()
        self.broker.start()
        self._create_topics()
        connection = Connection(self.broker.port)
        self._work(connection, "old")
        copy_live(self.broker.data, self.place / "early")
        (self.place / "early-truth").mkdir()
        write_truth(self.broker.address, TOPICS, self.place / "early-truth")
        self._upgrade()
        self._work(connection, "new")
        self._forget_transactional_ids(connection)
        self._delete_records(connection)
        keeper = self._leave_open()
        await_decisions(connection)
        self._await_cleaner(connection)
        write_truth(self.broker.address, TOPICS, self.place)
        facts = ask_broker(connection, PARTITIONS)
        self.groups = ask_groups(self.broker.address, PARTITIONS)
        copy_live(self.broker.data, self.place / "quiet")
        connection.close()
        self.broker.stop()
        copy_live(self.broker.data, self.place / "data")
        keeper.purge()
        return facts

    def _create_topics(self) -> None:
        count, _ = TOPICS[COMPACTED]
        new = NewTopic(COMPACTED, num_partitions=count, replication_factor=1, config=CLEANED_OFTEN)
        client = admin(self.broker.address)
        for future in client.create_topics([new]).values():
            future.result(SECONDS)
        # No batch is larger than a segment, so the largest ones have a topic of their own.
        create_topics(self.broker.address, {LARGE: TOPICS[LARGE]}, 8 * MAX_BATCH)
        others = {name: kind for name, kind in TOPICS.items() if name not in {COMPACTED, LARGE}}
        create_topics(self.broker.address, others, SEGMENT_BYTES)

    def _work(self, connection: Connection, phase: str) -> None:
        """Both kinds of clients: the Java client goes by the features that the broker has by then."""
        self.work.stopped.clear()
        self._transact(f"{phase}-transactional")
        self._send(f"{phase}-idempotent")
        self._return_forgotten(connection)
        commit_plainly(self.broker.address)
        commit_in_transactions(self.broker.address)
        JavaClient(self.work, f"{phase}-java", seconds=6.0).run()

    def _transact(self, name: str) -> None:
        producer = self._producer(name, **{"transactional.id": name})
        producer.init_transactions(SECONDS)
        for number in range(30):
            producer.begin_transaction()
            self._fill(producer, f"{name}.{number}", self.random.randrange(1, 20))
            producer.flush(SECONDS)
            commits = self.random.random() < 0.7
            (producer.commit_transaction if commits else producer.abort_transaction)(SECONDS)

    def _send(self, name: str) -> None:
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
                "bootstrap.servers": self.broker.address,
                "enable.idempotence": True,
                "compression.type": self.random.choice(["none", "gzip", "snappy", "lz4", "zstd"]),
                "message.max.bytes": 2 * MAX_BATCH,
                "batch.num.messages": 7,
                "log_level": 0,
                **more,
            }
        )

    def _return_forgotten(self, connection: Connection) -> None:
        """A producer with records so old that the broker soon forgets it: then any sequence may come."""
        reply = requests.init_producer_id(connection, label="", tid=None, timeout=60000, version=4)["reply"]
        old = int(time.time() * 1000) - 2 * EXPIRATION_MS
        for number, sequence in enumerate((0, 77, 200)):
            records = [Record(offset_delta=0, timestamp_delta=0, key=b"k1", value=b"old", headers=())]
            raw = build_batch(
                records=records,
                base_timestamp=old + number,
                producer_id=reply["producer_id"],
                producer_epoch=reply["producer_epoch"],
                base_sequence=sequence,
            )
            _until(partial(_is_taken, connection, raw), "its producer is forgotten")

    def _upgrade(self) -> None:
        command = ("--bootstrap-server", self.broker.address, "upgrade", "--feature", "transaction.version=2")
        done = subprocess.run(
            java_command("org.apache.kafka.tools.FeatureCommand", *command, heap="128m"),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _forget_transactional_ids(self, connection: Connection) -> None:
        """Until the coordinator has let all of them go."""
        _until(lambda: not transactional_ids(connection), "transactional ids expire")

    def _delete_records(self, connection: Connection) -> None:
        """To somewhere in the middle of a batch or a transaction, and to the end of another partition."""
        ends = offsets(connection, PARTITIONS)
        starts = {("pay", 0): int(ends["pay", 0] * self.random.random()), ("lat", 0): ends["lat", 0]}
        for tp, start in starts.items():
            delete_records(connection, tp, start)
        # A copy knows of it once it is written down, and not before.
        _until(lambda: starts.items() <= self._offsets(LOG_START_OFFSET_CHECKPOINT).items(), "log starts")

    def _leave_open(self) -> Producer:
        producer = self._producer("open", **{"transactional.id": "open", "transaction.timeout.ms": 3_000_000})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        self._fill(producer, "open", 40)
        producer.flush(SECONDS)
        for group in (MIXED, OPEN_ONLY):
            send_offsets(producer, self.broker.address, group, 23)
        return producer

    def _await_cleaner(self, connection: Connection) -> None:
        """Until it has been at work on every compacted partition, and finds nothing more to do."""
        cleaned = [(COMPACTED, number) for number in range(TOPICS[COMPACTED][0])]
        stable = offsets(connection, cleaned, isolation=READ_COMMITTED)
        _until(lambda: all(self._is_clean(tp, stable[tp]) for tp in cleaned), "the cleaner is done")

    def _is_clean(self, tp: Tp, stable: int) -> bool:
        """Whether it came to the segment that it may not enter: the last, or that of an open transaction."""
        files = (self.broker.data / f"{tp[0]}-{tp[1]}").glob("*.log")
        bases = sorted(int(path.stem) for path in files)
        closed = max(base for base in bases if base <= min(stable, bases[-1]))
        return self._offsets(CLEANER_OFFSET_CHECKPOINT).get(tp, -1) >= closed

    def _offsets(self, checkpoint: str) -> dict[Tp, int]:
        path = self.broker.data / checkpoint
        if not path.exists():
            return {}
        return {
            (each.topic, each.partition): each.offset
            for each in read_offsets(path.read_bytes(), source=path.name)
        }


def _is_taken(connection: Connection, raw: bytes) -> bool:
    """Whether the broker took the batch: out of order, it does so once it has forgotten the producer."""
    sent = requests.produce(connection, [("pay", 1, raw)], label="", version=9, acks=-1)
    error = sent["parts"][0]["reply"]["error"]
    assert error in {"NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER"}, sent
    return bool(error == "NONE")


def _until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"did not come: {what}")
        time.sleep(0.3)
