"""A lake whose source is a live cluster, work for its broker, and what its folder has beside the broker's."""

import time
from collections.abc import Iterable
from pathlib import Path
from random import Random

from confluent_kafka import Producer, TopicPartition

from spark_jobs.kafka.formats.record_batch import HEADER_SIZE
from spark_jobs.lake.layout import source_key
from spark_jobs.lake.stores import open_lake
from tests.broker.beliefs import differing_records
from tests.broker.clients.librdkafka import QUIET
from tests.broker.judge import INTERNAL_PARTITIONS, Broker
from tests.broker.runs import Lake, lake_at
from tests.broker.truth import read_truth, watermarks

LIVE = "live"
ISOLATION = ("read_committed", "read_uncommitted")
TRIES = 600
SECONDS = 60.0


def cluster_lake(
    place: Path,
    bootstrap: str,
    topics: Iterable[str],
    *,
    more: str = "",
    topic_settings: str = "{}",
    lake: str = "lake",
) -> Lake:
    """For a live cluster at `bootstrap`; `more` are further settings of the source."""
    names = ", ".join(topics)
    config = f"""
lake: {lake}
sources: [{{name: {LIVE}, kind: cluster, bootstrap: '{bootstrap}', topics: {{include: [{names}]}}{more}}}]
kafka: {{transaction_state_partitions: {INTERNAL_PARTITIONS}}}
topics: {topic_settings}
"""
    return lake_at(place, config)


def work(address: str, topic: str, transactions: int, *, partitions: int, codec: str) -> None:
    """Transactions of which every third is aborted, in batches of a few records."""
    settings = {"bootstrap.servers": address, "logger": QUIET, "compression.type": codec}
    producer = Producer({**settings, "transactional.id": topic, "batch.num.messages": 7})
    producer.init_transactions(SECONDS)
    random = Random(transactions)
    for number in range(transactions):
        producer.begin_transaction()
        for record in range(40):
            value = b"%d.%d " % (number, record) + random.randbytes(60)
            producer.produce(topic, partition=record % partitions, value=value)
        producer.flush(SECONDS)  # an abort before anything was sent is refused by the broker
        producer.abort_transaction(SECONDS) if number % 3 == 1 else producer.commit_transaction(SECONDS)
    await_markers(address, topic, partitions)


def expect_same(lake: Lake, broker: Broker, topic: str, partitions: int) -> None:
    """Segments are the broker's bytes, tables are what its consumer gets."""
    for number in range(partitions):
        log = stored(broker.data, f"{topic}-{number}")
        assert log
        assert fetched(lake, f"{topic}-{number}") == log
    truth = read_truth(broker.address, {topic: (partitions, "CreateTime")})
    assert truth
    assert list(differing_records(truth, lake.records())) == []


def await_markers(address: str, topic: str, partitions: int) -> None:
    """Until the markers of all ended transactions are written: a commit returns before they are."""
    for number in range(partitions):
        for _ in range(TRIES):
            ends = {
                watermarks(address, TopicPartition(topic, number), isolation)[1] for isolation in ISOLATION
            }
            if len(ends) == 1:
                break
            time.sleep(0.05)
        else:
            raise TimeoutError(f"{topic}-{number} still has an open transaction")


def fetched(lake: Lake, partition: str) -> bytes:
    """All fetched segments of a partition, by offset."""
    store = open_lake(lake.settings)
    keys = [each.key for each in store.list(source_key(LIVE)) if each.key.endswith(".log")]
    chosen = (key for key in keys if key.split("/")[-2] == partition)
    return b"".join(store.read(key) for key in sorted(chosen, key=lambda key: key.rpartition("/")[2]))


def stored(data: Path, partition: str) -> bytes:
    """The segments in a broker's log directory."""
    return b"".join(path.read_bytes() for path in sorted((data / partition).glob("*.log")))


def from_offset(log: bytes, offset: int) -> bytes:
    """The batches of a log that begin at `offset` or later."""
    position = 0
    while position + HEADER_SIZE <= len(log) and int.from_bytes(log[position : position + 8], "big") < offset:
        position += 12 + int.from_bytes(log[position + 8 : position + 12], "big")
    return log[position:]
