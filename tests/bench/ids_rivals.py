"""Which ids of a run are new, by Spark alone: `dropDuplicates`, an anti-join, MERGE into an Iceberg table.

Runs by itself, also in an environment that has only Spark: Iceberg's runtime needs an older one.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql.functions import count, lit

TICKS = os.sysconf("SC_CLK_TCK")
COLUMNS = ("key", "partition", "offset")


def main(asked: dict[str, Any]) -> None:
    spark = session(asked)
    *history, run = (spark.read.parquet(path).select(*COLUMNS) for path in asked["paths"])
    old = history[0]
    for each in history[1:]:
        old = old.union(each)
    run.limit(1000).dropDuplicates(["key"]).count()  # starts what a first query starts
    ways: dict[str, Callable[[], int]] = {
        "anti-join": lambda: observed(run.join(old, "key", "left_anti").dropDuplicates(["key"])),
        "dropDuplicates": lambda: observed(old.union(run).dropDuplicates(["key"])),
        "MERGE": lambda: merged(spark, run),
    }
    before = observed(old) if "dropDuplicates" in asked["ways"] else 0
    for way in asked["ways"]:
        if way == "MERGE":
            create(spark, asked["paths"][:-1])
        began, used = time.perf_counter(), cpu_seconds()
        found = ways[way]()
        seconds, cpu = time.perf_counter() - began, cpu_seconds() - used
        new = found - before if way == "dropDuplicates" else found
        print(json.dumps({"way": way, "seconds": seconds, "cpu": cpu, "new": new}), flush=True)
    spark.stop()


def session(asked: dict[str, Any]) -> SparkSession:
    warehouse = Path(asked["place"], "warehouse")
    shutil.rmtree(warehouse, ignore_errors=True)
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "6g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": asked["place"],
        "spark.sql.shuffle.partitions": "64",
        "spark.log.level": "ERROR",
    }
    if asked["jars"]:
        options |= {
            "spark.jars": asked["jars"],
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(warehouse),
        }
    builder = SparkSession.builder.master(f"local[{asked['cores']}]")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def observed(frame: DataFrame) -> int:
    """Computes all rows, writes none of them, and returns how many there are."""
    counted = Observation()
    frame.observe(counted, count(lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(counted.get["rows"])


def create(spark: SparkSession, paths: list[str]) -> None:
    """A table of history's files as they are, of which MERGE reads three columns."""
    spark.sql("CREATE TABLE lake.db.orders (`key` binary, `partition` int, `offset` bigint) USING iceberg")
    for path in paths:
        spark.sql(f"CALL lake.system.add_files(table => 'db.orders', source_table => '`parquet`.`{path}`')")


def merged(spark: SparkSession, run: DataFrame) -> int:
    """Inserts the new ids; returns how many."""
    run.dropDuplicates(["key"]).createOrReplaceTempView("run")
    spark.sql(
        "MERGE INTO lake.db.orders t USING run s ON t.key = s.key "
        "WHEN NOT MATCHED THEN INSERT (`key`, `partition`, `offset`) VALUES (s.key, s.partition, s.offset)"
    )
    newest = spark.sql("SELECT summary FROM lake.db.orders.snapshots ORDER BY committed_at DESC LIMIT 1")
    return int(newest.collect()[0]["summary"]["added-records"])


def cpu_seconds() -> float:
    """Of the JVM below this process."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in children)
    return sum(int(each[11]) + int(each[12]) for each in stats) / TICKS


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
