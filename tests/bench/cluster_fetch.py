"""What `kind: cluster` fetches of a live broker, beside Kafka's ConsumerPerformance on the same records.

Records of 1 kB, 4 partitions, not compressed. Segments are synced before they count: once to a file system in
memory, which shows what the fetch itself does, and once to the disk. ConsumerPerformance writes nothing.
"""

import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from spark_jobs.config.settings import Settings
from spark_jobs.lake.stores import open_lake
from spark_jobs.sources.registry import reader_of
from tests.bench.live_broker import consume
from tests.bench.workspace import CONSUMER_TITLE, FETCH_TITLE, Row, Workspace
from tests.broker.judge import Broker, JudgeUnavailableError, java_command, kafka_jars
from tests.broker.truth import create_topics

PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
TOPIC, PARTITIONS, RECORD_BYTES, SEGMENT_BYTES = "orders", 4, 1000, 2**30
MOST_RECORDS = 1_000_000
DAY = date(2026, 3, 1)
MEMORY = Path("/dev/shm")


def measure(space: Workspace) -> Sequence[Row]:
    """Both readers in turn, the best of each."""
    try:
        kafka_jars()
    except JudgeUnavailableError as problem:
        space.on_progress(f"left out: {problem}")
        return [Row(title=title, note=str(problem)) for title in (CONSUMER_TITLE, FETCH_TITLE)]
    records = min(space.volume.records, MOST_RECORDS)
    space.home.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=space.home) as folder,
        tempfile.TemporaryDirectory(dir=MEMORY) as memory,
    ):
        broker = Broker(Path(folder, "broker"))
        broker.format()
        broker.start()
        try:
            produce(broker, records)
            return _in_turn(space, broker, records, Path(folder), Path(memory))
        finally:
            broker.stop()


def _in_turn(space: Workspace, broker: Broker, records: int, folder: Path, memory: Path) -> Sequence[Row]:
    rows: dict[tuple[str, str], Row] = {}
    for _ in range(space.volume.times):
        for row in (
            consume(broker, folder, "1 kB", records),
            fetch(broker, memory, "1 kB, to memory", records),
            fetch(broker, folder, "1 kB, to the disk", records),
        ):
            space.on_progress(f"{row.title} {row.data}: {row.seconds:.2f} s, {row.cpu_seconds:.2f} s of CPU")
            rows[row.title, row.data] = min(
                rows.get((row.title, row.data), row), row, key=lambda r: r.seconds
            )
    return list(rows.values())


def produce(broker: Broker, records: int) -> None:
    """Fills the topic."""
    create_topics(broker.address, {TOPIC: (PARTITIONS, "CreateTime")}, SEGMENT_BYTES)
    volume = ("--num-records", str(records), "--record-size", str(RECORD_BYTES), "--throughput", "-1")
    settings = (f"bootstrap.servers={broker.address}", "batch.size=262144", "linger.ms=20", "acks=1")
    arguments = ("--topic", TOPIC, *volume, "--producer-props", *settings)
    subprocess.run(java_command(PRODUCER, *arguments, heap="1g"), check=True, capture_output=True)


def fetch(broker: Broker, place: Path, data: str, records: int) -> Row:
    """Everything up to the high watermark in this process, CRC checked, written as segments."""
    lake = place / "fetched"
    shutil.rmtree(lake, ignore_errors=True)
    source = {"name": "live", "kind": "cluster", "bootstrap": broker.address, "topics": {"include": [TOPIC]}}
    settings = Settings.model_validate({"lake": str(lake), "sources": [source]})
    began, used = time.monotonic(), _cpu_seconds()
    reader_of(settings.sources[0]).bring_in(DAY, open_lake(settings), None)
    row = Row(
        title=FETCH_TITLE,
        data=data,
        seconds=time.monotonic() - began,
        cpu_seconds=_cpu_seconds() - used,
        records=records,
        bytes=sum(path.stat().st_size for path in lake.rglob("*.log")),
    )
    shutil.rmtree(lake)
    return row


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
