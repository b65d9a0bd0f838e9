"""`python -m tests.bench.spark_kafka ADDRESS JARS OUTPUT`: Spark's Kafka source into Parquet.

With `--log DIRECTORY OUTPUT` the data source `kafka-log` instead.

Prints CPU seconds, seconds, without the start of the session, and how many records were written.
"""

import os
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from spark_jobs.execution.classic import prepare_environment
from spark_jobs.reading.spark_source import register
from tests.bench.measure import children_cpu_seconds, own_cpu_seconds


def main(address: str, jars: str, output: Path) -> None:
    session = _session({} if address == "--log" else {"spark.jars": jars})
    before, began = _cpu_seconds(), time.perf_counter()
    rows = _log(session, jars) if address == "--log" else _topic(session, address)
    rows.write.option("compression", "zstd").parquet(str(output))
    seconds, cpu_seconds = time.perf_counter() - began, _cpu_seconds() - before
    records = sum(pq.read_metadata(path).num_rows for path in output.glob("*.parquet"))
    session.stop()
    print(cpu_seconds, seconds, records)


def _cpu_seconds() -> float:
    """Of this process, the JVM and Python workers; the broker is not among them."""
    return own_cpu_seconds() + children_cpu_seconds()


def _session(conf: dict[str, str]) -> SparkSession:
    prepare_environment(os.environ)
    builder = SparkSession.builder.master(f"local[{os.cpu_count()}]")
    for name, value in {"spark.ui.enabled": "false", "spark.driver.memory": "2g", **conf}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.range(10).count()
    return session


def _log(session: SparkSession, path: str) -> DataFrame:
    register(session)
    return session.read.format("kafka-log").load(path)


def _topic(session: SparkSession, address: str) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": address,
        "subscribe": "orders",
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    return session.read.format("kafka").options(**options).load()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
