"""Brokers of older versions as a source: their bytes, and their consumers' records."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from random import Random

from confluent_kafka.cimpl import NewTopic

from tests.broker.cluster_source import cluster_lake, expect_same, fetched, work
from tests.broker.judge import Broker
from tests.broker.truth import admin, wait_for_leaders
from tests.maven import fetched_jars

DAYS = (date(2026, 3, 1), date(2026, 3, 2))
TOPIC, PARTITIONS, SEGMENT_BYTES = "orders", 2, 8192
CODECS = {"v3.9": ("zstd", "snappy")}
"""Each version is a folder of `infra/kafka`; with the codecs of its records in two runs."""


def versions_trial(place: Path, seed: int) -> dict[str, int]:
    """Every version: work, a run, work, a run; segments and tables are compared after each."""
    counts = {}
    for version, codecs in CODECS.items():
        with started(Broker(place / version, jars=fetched_jars(f"kafka/{version}"))) as broker:
            counts[f"bytes of {version}"] = _compare(broker, place / f"lake-{version}", codecs, Random(seed))
    return counts


def _compare(broker: Broker, place: Path, codecs: tuple[str, str], random: Random) -> int:
    new = NewTopic(TOPIC, PARTITIONS, 1, config={"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"})
    client = admin(broker.address)
    client.create_topics([new])[TOPIC].result(60)
    wait_for_leaders(broker.address)
    lake = cluster_lake(place, broker.address, [TOPIC])
    for day, codec in zip(DAYS, codecs, strict=True):
        work(broker.address, TOPIC, random.randrange(6, 20), partitions=PARTITIONS, codec=codec)
        lake.run(day)
        expect_same(lake, broker, TOPIC, PARTITIONS)
    return sum(len(fetched(lake, f"{TOPIC}-{number}")) for number in range(PARTITIONS))


@contextmanager
def started(broker: Broker) -> Iterator[Broker]:
    """The broker while it runs."""
    broker.format()
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
