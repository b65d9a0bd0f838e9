"""A fresh broker that starts on a log that Onceover wrote."""

import shutil
from pathlib import Path

from tests.broker.judge import Broker
from tests.broker.truth import create_topics, wait_for_leaders

TOPIC_ID = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
Topics = dict[str, tuple[int, str]]


def adopt(broker: Broker, topics: Topics, logs: Path, segment_bytes: int) -> None:
    """Start `broker` on the partitions in `logs`, in topics made for them.

    The broker creates the topics and their ids. Then it stops, our logs replace its empty ones, and it starts
    again without the marker file of a clean shutdown, so that it recovers every log.
    """
    broker.format()
    broker.start()
    create_topics(broker.address, topics, segment_bytes)
    broker.stop()
    for directory in sorted(logs.iterdir()):
        _replace(directory, broker.data / directory.name)
    (broker.data / CLEAN_SHUTDOWN).unlink()
    broker.start()
    wait_for_leaders(broker.address)


def _replace(ours: Path, theirs: Path) -> None:
    for path in theirs.iterdir():
        if path.name != TOPIC_ID:
            path.unlink()
    shutil.copytree(ours, theirs, dirs_exist_ok=True)
