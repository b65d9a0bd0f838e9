"""What a tap costs: Kafka's ProducerPerformance at a broker directly, and through a tap before it.

Both use the same broker and topic, in turn. One measurement sends as fast as it can, the other a fixed number
of records per second for latencies. Where Kafka or Java cannot be had, a row says so.
"""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.bench.workspace import Row, Workspace
from tests.broker.judge import Broker, JudgeUnavailableError, java_command, kafka_jars
from tests.broker.tapped import Ports, TapProcess, tapped_broker
from tests.broker.truth import create_topics

PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
LINE = re.compile(
    r"(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec \((?P<mb>[\d.]+) MB/sec\), "
    r"(?P<average>[\d.]+) ms avg latency, (?P<most>[\d.]+) ms max latency, (?P<p50>\d+) ms 50th, "
    r"(?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th, (?P<p999>\d+) ms 99.9th"
)
TOPIC, RECORD_BYTES, SEGMENT_BYTES = "orders", 1000, 2**30
STEADY_RATE, STEADY_SECONDS = 2_000, 15
SHARE = 20
"""Of the volume's records, one in so many is sent."""
DIRECT, TAPPED = "producer, direct", "producer, through the tap"


def measure(space: Workspace) -> Sequence[Row]:
    """Both ways, at full speed and at a fixed rate."""
    try:
        kafka_jars()
    except JudgeUnavailableError as problem:
        return [Row(title=title, note=str(problem)) for title in (DIRECT, TAPPED)]
    space.home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=space.home) as folder:
        return _measured(space, Path(folder))


def _measured(space: Workspace, folder: Path) -> list[Row]:
    ports = Ports()
    broker = tapped_broker(folder / "broker", ports, {})
    tap = TapProcess(ports, str(folder / "captures"), folder / "spool", folder / "tap.log")
    try:
        _start(broker)
        tap.start()
        ways = {DIRECT: broker.address, TAPPED: f"127.0.0.1:{ports.clients}"}
        for address in ways.values():
            send("warm up", address, space.volume.records // SHARE, -1)
        fast = space.volume.records // SHARE
        steady = min(STEADY_RATE * STEADY_SECONDS, fast)
        rows = []
        for count, rate in ((fast, -1), (steady, STEADY_RATE)):
            rows += [
                space.best(lambda t=title, a=address, c=count, r=rate: send(t, a, c, r))  # type: ignore[misc]
                for title, address in ways.items()
            ]
        return rows
    finally:
        tap.stop()
        broker.kill()


def _start(broker: Broker) -> None:
    broker.format()
    broker.start()
    create_topics(broker.address, {TOPIC: (4, "CreateTime")}, SEGMENT_BYTES)


def send(title: str, address: str, records: int, rate: int) -> Row:
    """One run of ProducerPerformance with idempotence, acks=all; its own clock."""
    arguments = ("--topic", TOPIC, "--num-records", str(records), "--record-size", str(RECORD_BYTES))
    more = ("--throughput", str(rate), "--producer-props", f"bootstrap.servers={address}", "acks=all")
    command = java_command(PRODUCER, *arguments, *more)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return producer_row(title, done.stdout, "as fast as it can" if rate < 0 else f"{rate:,} records/s")


def producer_row(title: str, printed: str, data: str) -> Row:
    """The last line of the tool, with latencies in ms."""
    found = [match for line in printed.splitlines() if (match := LINE.search(line))][-1]
    records, rate = int(found["records"]), float(found["rate"])
    numbers = {name: float(found[name]) for name in ("average", "p50", "p95", "p99", "p999")}
    return Row(
        title=title,
        data=data,
        seconds=records / rate,
        records=records,
        bytes=records * RECORD_BYTES,
        numbers={f"{name} ms": value for name, value in numbers.items()},
    )
