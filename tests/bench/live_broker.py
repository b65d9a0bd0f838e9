"""Readers of a live broker: Kafka's ConsumerPerformance and Spark's Kafka source, both read_committed.

The broker starts on the log that Onceover accepted from the same capture. Where Kafka, Java or Maven cannot
be had, a row says so.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.bench.onceover import accepted_log, committed_records
from tests.bench.spark_kafka import PARQUET, SESSION, found
from tests.bench.workspace import CONSUMER_TITLE, ROOT, Row, Workspace
from tests.broker.adoption import adopt
from tests.broker.judge import Broker, JudgeUnavailableError, java_command, kafka_jars
from tests.maven import GOAL

CONSUMER = "org.apache.kafka.tools.ConsumerPerformance"
SPARK_POM = Path(__file__).with_name("spark_kafka_pom.xml")
SPARK_JARS = Path.home() / ".cache" / "onceover" / "spark-kafka-4.0.0"
NEEDED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
SEGMENT_BYTES = 2**30
SPARK_TITLE = "Spark Kafka source"


def measure(space: Workspace) -> Sequence[Row]:
    """Both readers on one broker."""
    try:
        kafka_jars()
    except JudgeUnavailableError as problem:
        space.on_progress(f"left out: {problem}")
        return [Row(title=title, note=str(problem)) for title in (CONSUMER_TITLE, SPARK_TITLE)]
    data = space.volume.compared.name.lower()
    log = accepted_log(space, space.volume.compared)
    with tempfile.TemporaryDirectory(dir=space.home) as folder:
        broker = Broker(Path(folder, "broker"))
        adopt(broker, {"orders": (len(list(log.iterdir())), "CreateTime")}, log, SEGMENT_BYTES)
        try:
            records = committed_records(space, space.volume.compared)
            consumed = space.best(lambda: consume(broker, Path(folder), data, records))
            return [
                consumed,
                space.best(lambda: spark_rows(broker, Path(folder), data)[0], space.volume.slow_times),
            ]
        finally:
            broker.stop()


def consume(broker: Broker, folder: Path, data: str, records: int) -> Row:
    """Counts what a read_committed consumer gets; the tool's own clock, without joining its group."""
    properties = folder / "consumer.properties"
    properties.write_text("isolation.level=read_committed\nauto.offset.reset=earliest\n")
    arguments = ("--bootstrap-server", broker.address, "--topic", "orders", "--num-records", str(records))
    more = ("--command-config", str(properties), "--timeout", "60000", "--hide-header")
    command = java_command(CONSUMER, *arguments, *more, heap="1g")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return consumer_row(done.stdout, data)


def consumer_row(printed: str, data: str) -> Row:
    """The tool's line: start, end, MB, MB/s, records, records/s, ms to join, ms of fetching, …"""
    line = next(line.split(", ") for line in printed.splitlines() if line[:2] == "20")
    return Row(title=CONSUMER_TITLE, data=data, seconds=int(line[7]) / 1000, records=int(line[4]))


def spark_jars() -> list[Path]:
    """Spark's Kafka source with what it needs, fetched through Maven the first time."""
    if not list(SPARK_JARS.glob("spark-sql-kafka*.jar")):
        if not shutil.which("mvn"):
            raise JudgeUnavailableError("Spark's Kafka source needs Maven on the PATH")
        command = ["mvn", "-q", "-B", "-f", str(SPARK_POM), GOAL, f"-DoutputDirectory={SPARK_JARS}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise JudgeUnavailableError(f"Maven could not fetch Spark's Kafka source: {done.stdout[-300:]}")
    return [path for name in NEEDED for path in SPARK_JARS.glob(f"{name}*.jar")]


def spark_rows(broker: Broker, folder: Path, data: str, works: Sequence[str] = (PARQUET,)) -> list[Row]:
    """What Spark does with its Kafka source: a row per work, with the work in its title if there are more."""
    row = Row(title=SPARK_TITLE, data=data)
    try:
        jars = ",".join(map(str, spark_jars()))
    except JudgeUnavailableError as problem:
        return [Row(title=SPARK_TITLE, note=str(problem))]
    return spark_works("kafka", broker.address, folder, works, row=row, jars=jars)


def spark_works(
    source: str,
    place: str,
    folder: Path,
    works: Sequence[str],
    *,
    row: Row,
    jars: str = "",
    tuned: bool = False,
) -> list[Row]:
    """The works in a process of its own, whose session has `jars`; the shortest of those that are repeated.

    All of them read the same records, so the rows of those that do not count have the number of the others,
    except for that of the session, which reads none.
    """
    output = folder / "spark-output"
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "tests.bench.spark_kafka", source, place, str(output), *works]
    env = {**os.environ, "SPARK_KAFKA_JARS": jars, "SPARK_TUNED": "1" if tuned else ""}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        return [replace(row, note=f"it failed: {done.stderr.strip().splitlines()[-1][:200]}")]
    rows = [replace(row, title=f"{row.title}, {each.pop('work')}", **each) for each in found(done.stdout)]
    (records,) = {each.records for each in rows if each.records}
    best = {each.title: each for each in sorted(rows, key=lambda each: -each.seconds)}
    ordered = dict.fromkeys(f"{row.title}, {work}" for work in (SESSION, *works))
    if len(works) == 1:
        return [replace(best[f"{row.title}, {works[0]}"], title=row.title)]
    session = f"{row.title}, {SESSION}"
    return [replace(best[title], records=0 if title == session else records) for title in ordered]
