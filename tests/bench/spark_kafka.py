"""`python -m tests.bench.spark_kafka SOURCE PLACE FOLDER WORK…`: works of Spark on a source, in one session.

SOURCE is `kafka` (Spark's Kafka source, PLACE the address of a broker, its jars in SPARK_KAFKA_JARS) or
`kafka-log` (PLACE a log directory). Both give the seven columns that Spark's Kafka source has. The session is
a plain user's, without settings of Onceover, unless SPARK_TUNED is set: then it has those of the guide.

Prints one JSON object per work: CPU seconds, seconds, and how many records were read.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_jobs.execution.classic import prepare_environment
from spark_jobs.reading.spark_source import register
from tests.bench.measure import children_cpu_seconds, own_cpu_seconds

SESSION, FIRST, READING, COUNT, PARQUET = "session", "first query", "reading", "count by key", "Parquet"
WORKS = (FIRST, READING, READING, READING, COUNT, PARQUET)
"""What `tests.bench.readers` measures, in this order."""
TUNED_WORKS = (FIRST, READING, READING, READING, COUNT)
TUNED = {
    "spark.driver.extraJavaOptions": "-Darrow.enable_unsafe_memory_access=true "
    "-Darrow.enable_null_check_for_get=false",
    "spark.python.unix.domain.socket.enabled": "true",
}
"""What `docs/guides/spark-source.md` recommends for sessions that read much."""
COLUMNS = "key,value,topic,partition,offset,timestamp,timestamp_type"


def main(source: str, place: str, folder: Path, *works: str) -> None:
    began, before = time.perf_counter(), _cpu_seconds()
    session = _session(os.environ.get("SPARK_KAFKA_JARS", ""))
    rows = {"kafka": _topic, "kafka-log": _log}[source]
    _print(SESSION, 0, began, before)
    for work in works:
        began, before = time.perf_counter(), _cpu_seconds()
        records = _WORK[work](rows(session, place), folder)
        _print(work, records, began, before)
    session.stop()


def _print(work: str, records: int, began: float, before: float) -> None:
    seconds, cpu_seconds = time.perf_counter() - began, _cpu_seconds() - before
    print(
        json.dumps({"work": work, "seconds": seconds, "cpu_seconds": cpu_seconds, "records": records}),
        flush=True,
    )


def found(printed: str) -> Iterator[dict[str, Any]]:
    """What `main` printed."""
    return (json.loads(line) for line in printed.splitlines() if line.startswith('{"work"'))


def _cpu_seconds() -> float:
    """Of this process, the JVM and Python workers; the broker is not among them."""
    return own_cpu_seconds() + children_cpu_seconds()


def _session(jars: str) -> SparkSession:
    prepare_environment(os.environ)
    conf = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g"}
    builder = SparkSession.builder.master(f"local[{os.cpu_count()}]")
    tuned = TUNED if os.environ.get("SPARK_TUNED") else {}
    for name, value in {**conf, **tuned, **({"spark.jars": jars} if jars else {})}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.range(10).count()
    register(session)
    return session


def _log(session: SparkSession, path: str) -> DataFrame:
    return session.read.format("kafka-log").option("columns", COLUMNS).load(path)


def _topic(session: SparkSession, address: str) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": address,
        "subscribe": "orders",
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    return session.read.format("kafka").options(**options).load()


def _read(rows: DataFrame, _: Path) -> int:
    """Every row is made, none is kept; how many there were is not known."""
    rows.write.format("noop").mode("overwrite").save()
    return 0


def _count(rows: DataFrame, _: Path) -> int:
    (found,) = rows.groupBy("key").count().agg(sf.sum("count")).collect()
    return int(found[0])


def _write(rows: DataFrame, folder: Path) -> int:
    rows.write.mode("overwrite").option("compression", "zstd").parquet(str(folder))
    return sum(pq.read_metadata(path).num_rows for path in folder.glob("*.parquet"))


_WORK: dict[str, Callable[[DataFrame, Path], int]] = {
    FIRST: _read,
    READING: _read,
    COUNT: _count,
    PARQUET: _write,
}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
