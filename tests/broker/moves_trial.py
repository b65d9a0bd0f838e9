"""Three brokers: one is killed and leaders move while the log is fetched; each record is there once."""

import threading
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from random import Random

from confluent_kafka import KafkaException, Producer
from confluent_kafka.cimpl import NewTopic

from spark_jobs.sources.cluster.cut import CUT, PLAN
from tests.broker.beliefs import differing_records
from tests.broker.clients.librdkafka import QUIET
from tests.broker.cluster_source import LIVE, await_markers, cluster_lake, fetched, stored
from tests.broker.judge import Broker
from tests.broker.lives import lived
from tests.broker.promises import expect_none
from tests.broker.runs import Lake
from tests.broker.truth import admin, read_truth, wait_for_leaders

TOPIC, PARTITIONS = "moved", 6
TOPICS = {TOPIC: (PARTITIONS, "CreateTime")}
FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)
RECORDS_EACH, RECORD_BYTES, SECONDS = 400, 2000, 120.0
TRANSACTIONS, FETCH_SECONDS = 20, 8
REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "controlled.shutdown.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}


def moves_trial(place: Path, seed: int, *, transactions: int = TRANSACTIONS) -> dict[str, int]:
    """Everything in `place`; raises `BrokenPromise` at the first difference."""
    three, random = Three(place.resolve()), Random(seed)
    try:
        with lived():
            three.start()
            _work(three.addresses, random, transactions)
        return _live(three, place, random, transactions)
    finally:
        for broker in three.brokers:
            broker.kill()


@dataclass
class Three:
    """A controller that is a broker too, and two more brokers, which may be killed."""

    place: Path
    brokers: list[Broker] = field(default_factory=list)

    def __post_init__(self) -> None:
        first = Broker(self.place / "broker-1", dict(REPLICATED))
        self.brokers = [first, *(self._another(number, first) for number in (2, 3))]

    def _another(self, number: int, first: Broker) -> Broker:
        broker = Broker(self.place / f"broker-{number}")
        address = f"PLAINTEXT://127.0.0.1:{broker.port}"
        broker.overrides |= REPLICATED | {
            "node.id": str(number),
            "process.roles": "broker",
            "controller.quorum.voters": f"1@127.0.0.1:{first.controller_port}",
            "listeners": address,
            "advertised.listeners": address,
        }
        return broker

    @property
    def addresses(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    def start(self) -> None:
        for broker in self.brokers:
            broker.format()
            broker.start()
        client = admin(self.brokers[0].address)
        for _ in range(300):
            if len(client.list_topics(timeout=30).brokers) == len(self.brokers):
                break
            time.sleep(0.2)
        for future in client.create_topics(
            [NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=3, config={"retention.ms": "-1"})]
        ).values():
            future.result(SECONDS)
        wait_for_leaders(self.brokers[0].address)


def _work(address: str, random: Random, transactions: int) -> None:
    """Transactions on all partitions; after one that fails, a new producer aborts it and continues."""
    producer = _producer(address)
    for _ in range(transactions):
        try:
            _transaction(producer, random)
        except KafkaException:
            producer = _producer(address)


def _producer(address: str) -> Producer:
    settings = {"bootstrap.servers": address, "logger": QUIET, "transactional.id": "mover"}
    producer = Producer({**settings, "compression.type": "lz4", "transaction.timeout.ms": 60_000})
    producer.init_transactions(SECONDS)
    return producer


def _transaction(producer: Producer, random: Random) -> None:
    producer.begin_transaction()
    for number in range(RECORDS_EACH):
        producer.produce(TOPIC, partition=number % PARTITIONS, value=random.randbytes(RECORD_BYTES))
        producer.poll(0)
    producer.commit_transaction(SECONDS) if random.random() < 0.7 else producer.abort_transaction(SECONDS)


def _file(lake: Lake, name: str) -> Path:
    return lake.place / "lake" / "sources" / LIVE / str(FIRST) / name


def _is_between(lake: Lake, killed: list[float]) -> bool:
    """Whether the broker was killed after the cut was planned and before it was complete."""
    return _file(lake, PLAN).stat().st_mtime <= killed[0] <= _file(lake, CUT).stat().st_mtime


def _live(three: Three, place: Path, random: Random, transactions: int) -> dict[str, int]:
    per_second = transactions * RECORDS_EACH * RECORD_BYTES // FETCH_SECONDS
    rate = f", max_partition_fetch_bytes: 64KiB, max_bytes_per_second: {per_second}"
    lake = cluster_lake(place / "lake", three.addresses, [TOPIC], more=rate)
    victim = random.choice(three.brokers[1:])
    killed: list[float] = []

    def kill() -> None:
        while not _file(lake, PLAN).exists():
            time.sleep(0.05)
        time.sleep(random.random() * 3)
        killed.append(time.time())
        victim.kill()

    killing = threading.Thread(target=kill)
    killing.start()
    lake.run(FIRST)
    killing.join()
    expect_none([] if _is_between(lake, killed) else [killed], "a broker is killed while the log is fetched")
    with lived():
        _work(three.addresses, random, 5)
        victim.start()
        wait_for_leaders(three.brokers[0].address)
        await_markers(three.addresses, TOPIC, PARTITIONS)
    quick = cluster_lake(place / "lake", three.addresses, [TOPIC])
    quick.run(SECOND)
    truth = read_truth(three.brokers[0].address, TOPICS)
    expect_none(differing_records(truth, quick.records()), "tables hold what a consumer got")
    logs = [(number, fetched(quick, f"{TOPIC}-{number}")) for number in range(PARTITIONS)]
    expect_none(
        (number for number, log in logs if log != stored(three.brokers[0].data, f"{TOPIC}-{number}")),
        "segments are the brokers' bytes",
    )
    return {"records": len(truth), "bytes": sum(len(log) for _, log in logs)}
