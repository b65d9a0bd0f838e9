"""A lake whose source is a live cluster, and what its folder has beside the broker's own files."""

import time
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import TopicPartition

from spark_jobs.kafka.formats.record_batch import HEADER_SIZE
from tests.broker.judge import INTERNAL_PARTITIONS
from tests.broker.runs import Lake, lake_at
from tests.broker.truth import watermarks

LIVE = "live"
ISOLATION = ("read_committed", "read_uncommitted")
TRIES = 600


def cluster_lake(
    place: Path, bootstrap: str, topics: Iterable[str], *, more: str = "", topic_settings: str = "{}"
) -> Lake:
    """For a live cluster at `bootstrap`; `more` are further settings of the source."""
    names = ", ".join(topics)
    config = f"""
lake: lake
sources: [{{name: {LIVE}, kind: cluster, bootstrap: '{bootstrap}', topics: {{include: [{names}]}}{more}}}]
kafka: {{transaction_state_partitions: {INTERNAL_PARTITIONS}}}
topics: {topic_settings}
"""
    return lake_at(place, config)


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
    files = (lake.place / "lake" / "sources" / LIVE).glob(f"*/{partition}/*.log")
    return b"".join(path.read_bytes() for path in sorted(files, key=lambda path: path.name))


def stored(data: Path, partition: str) -> bytes:
    """The segments in a broker's log directory."""
    return b"".join(path.read_bytes() for path in sorted((data / partition).glob("*.log")))


def from_offset(log: bytes, offset: int) -> bytes:
    """The batches of a log that begin at `offset` or later."""
    position = 0
    while position + HEADER_SIZE <= len(log) and int.from_bytes(log[position : position + 8], "big") < offset:
        position += 12 + int.from_bytes(log[position + 8 : position + 12], "big")
    return log[position:]
