"""Brokers of older versions as a source: their bytes, and their consumers' records."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from random import Random

from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from tests.broker.clients.librdkafka import QUIET
from tests.broker.cluster_source import cluster_lake, expect_same, fetched, stored, work
from tests.broker.judge import Broker, ZooKeeperBroker
from tests.broker.truth import admin, wait_for_leaders
from tests.maven import fetched_jars

DAYS = (date(2026, 3, 1), date(2026, 3, 2))
TOPIC, OLD_TOPIC, PARTITIONS = "orders", "old", 2
CONFIG = {"segment.bytes": "8192", "retention.ms": "-1"}
OLD_CONFIG = {**CONFIG, "message.format.version": "0.10.2"}
OLD_CODECS = ("gzip", "lz4")
MAGIC_AT = 16
CODECS = {
    "v2.0": ("lz4", "snappy"),
    "v2.1": ("zstd", "none"),
    "v2.8": ("zstd", "gzip"),
    "v3.9": ("zstd", "snappy"),
}
"""Each version is a folder of `infra/kafka`; with the codecs of its records in two runs."""
WITH_ZOOKEEPER = ("v2.0", "v2.1", "v2.8")
"""These also have a topic with messages of a format before batches."""
Write = Callable[[str], None]


def versions_trial(place: Path, seed: int) -> dict[str, int]:
    """Every version: work, a run, work, a run; segments and tables are compared after each."""
    counts, random = {}, Random(seed)
    for version, codecs in CODECS.items():
        is_old = version in WITH_ZOOKEEPER
        kind = ZooKeeperBroker if is_old else Broker
        with started(kind(place / version, jars=fetched_jars(f"kafka/{version}"))) as broker:
            _create(broker.address, OLD_CONFIG if is_old else None)
            lake = place / f"lake-{version}"
            counts[f"bytes of {version}"] = _compare(
                broker, lake, TOPIC, _transactions(broker, random), codecs
            )
            if is_old:
                write, lake = _messages(broker, random), place / f"lake-{version}-old"
                size = _compare(broker, lake, OLD_TOPIC, write, OLD_CODECS)
                counts[f"bytes of old messages of {version}"] = size
    return counts


def _create(address: str, old: dict[str, str] | None) -> None:
    new = [NewTopic(TOPIC, PARTITIONS, 1, config=CONFIG)]
    new += [NewTopic(OLD_TOPIC, PARTITIONS, 1, config=old)] if old else []
    client = admin(address)
    for future in client.create_topics(new).values():
        future.result(60)
    wait_for_leaders(address)


def _compare(broker: Broker, place: Path, topic: str, write: Write, codecs: tuple[str, str]) -> int:
    lake = cluster_lake(place, broker.address, [topic])
    for day, codec in zip(DAYS, codecs, strict=True):
        write(codec)
        lake.run(day)
        expect_same(lake, broker, topic, PARTITIONS)
        assert stored(broker.data, f"{topic}-0")[MAGIC_AT] == (1 if topic == OLD_TOPIC else 2)
    return sum(len(fetched(lake, f"{topic}-{number}")) for number in range(PARTITIONS))


def _transactions(broker: Broker, random: Random) -> Write:
    return lambda codec: work(
        broker.address, TOPIC, random.randrange(6, 20), partitions=PARTITIONS, codec=codec
    )


def _messages(broker: Broker, random: Random) -> Write:
    """Records of one producer; their topic has no transactions."""

    def write(codec: str) -> None:
        settings = {"bootstrap.servers": broker.address, "logger": QUIET, "compression.type": codec}
        producer = Producer({**settings, "batch.num.messages": 7})
        for number in range(random.randrange(200, 400)):
            producer.produce(OLD_TOPIC, partition=number % PARTITIONS, value=random.randbytes(60))
        assert producer.flush(60) == 0

    return write


@contextmanager
def started(broker: Broker) -> Iterator[Broker]:
    """The broker while it runs."""
    broker.format()
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
