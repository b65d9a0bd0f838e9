"""`python -m tests.bench.spark_kafka ADDRESS JARS OUTPUT`: Spark's Kafka source into Parquet.

Prints seconds, without the start of the session, and how many records were written.
"""

import os
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from spark_jobs.execution.classic import prepare_environment


def main(address: str, jars: str, output: Path) -> None:
    prepare_environment(os.environ)
    builder = SparkSession.builder.master(f"local[{os.cpu_count()}]").config("spark.jars", jars)
    session = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "2g").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.range(10).count()
    options = {
        "kafka.bootstrap.servers": address,
        "subscribe": "orders",
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    began = time.perf_counter()
    rows = session.read.format("kafka").options(**options).load()
    rows.write.option("compression", "zstd").parquet(str(output))
    seconds = time.perf_counter() - began
    records = sum(pq.read_metadata(path).num_rows for path in output.glob("*.parquet"))
    session.stop()
    print(seconds, records)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
