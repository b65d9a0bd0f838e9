"""What `deduplicate` does, by Spark alone: an anti-join, all history by id, MERGE into an Iceberg table.

Each way has two rows. One writes the records that the run keeps, with all their columns, as Parquet with zstd
or into the Iceberg table. The other only finds the new ids: it takes the id and its address and writes
nothing, or, in MERGE, these three columns. `dropDuplicates` keeps any record of an id, so that it cannot
write those of the run that are the first; that needs `row_number`.

Runs by itself, also in an environment that has only Spark: Iceberg's runtime needs an older one.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql.functions import col, count, lit, row_number

TICKS = os.sysconf("SC_CLK_TCK")
COLUMNS = ("key", "partition", "offset")


ID = "key"
ORDER = ("run_date", "partition", "offset")
FEW = 100_000
"""Rows of the run and of history for a first try that is not measured."""


def main(asked: dict[str, Any]) -> None:
    spark = session(asked)
    *history, run = (spark.read.parquet(path) for path in asked["paths"])
    old = history[0]
    for each in history[1:]:
        old = old.union(each)
    out = Path(asked["place"], "kept")
    measured = Ways(spark, run, old, out)
    few = Ways(spark, run.limit(FEW), old.limit(FEW), out)
    before = observed(old.select(*COLUMNS)) if "dropDuplicates, ids only" in asked["ways"] else 0
    for way in asked["ways"]:
        few.prepare(way, [])
        few.result(way)  # the JVM compiles on the way; the step is measured in a session that has worked, too
        measured.prepare(way, asked["paths"][:-1])
        began, used = time.perf_counter(), cpu_seconds()
        found = measured.result(way)
        seconds, cpu = time.perf_counter() - began, cpu_seconds() - used
        new = found - before if way.startswith("dropDuplicates") else found
        print(json.dumps({"way": way, "seconds": seconds, "cpu": cpu, "new": new}), flush=True)
    shutil.rmtree(out, ignore_errors=True)
    spark.stop()


@dataclass(frozen=True)
class Ways:
    """Spark's ways for a run and its history; records are written to `out`."""

    spark: SparkSession
    run: DataFrame
    old: DataFrame
    out: Path

    def prepare(self, way: str, paths: list[str]) -> None:
        """What is there before a way begins: no output, and for MERGE a table of history's files."""
        shutil.rmtree(self.out, ignore_errors=True)
        if way.startswith("MERGE"):
            create(self.spark, self.run if way == "MERGE" else self.run.select(*COLUMNS), paths)

    def result(self, way: str) -> int:
        """How many rows a way finds."""
        run, old = self.run, self.old
        ids, old_ids = run.select(*COLUMNS), old.select(*COLUMNS)
        ways: dict[str, Callable[[], int]] = {
            "anti-join": lambda: written(new_of(run, old), self.out),
            "anti-join, ids only": lambda: observed(new_of(ids, old)),
            "row_number": lambda: written(first_of(run, old), self.out),
            "dropDuplicates, ids only": lambda: observed(old_ids.union(ids).dropDuplicates([ID])),
            "MERGE": lambda: merged(self.spark, run),
            "MERGE, ids only": lambda: merged(self.spark, ids),
        }
        return ways[way]()


def new_of(run: DataFrame, old: DataFrame) -> DataFrame:
    """Rows of the run whose id history does not have, one for each id."""
    return run.join(old.select(ID), ID, "left_anti").dropDuplicates([ID])


def first_of(run: DataFrame, old: DataFrame) -> DataFrame:
    """Rows of the run that are the first with their id; of history only the columns that decide are read."""
    needed = {ID, *ORDER}
    known = [
        col(each.name) if each.name in needed else lit(None).cast(each.dataType).alias(each.name)
        for each in run.schema
    ]
    both = old.select(*known, lit(False).alias("is_of_run")).union(
        run.select("*", lit(True).alias("is_of_run"))
    )
    number = row_number().over(Window.partitionBy(ID).orderBy(*ORDER))
    first = both.withColumn("number", number).where("number = 1 AND is_of_run")
    return first.drop("number", "is_of_run")


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


def written(frame: DataFrame, path: Path) -> int:
    """Writes all rows as Parquet with zstd, and returns how many there are."""
    counted = Observation()
    rows = frame.observe(counted, count(lit(1)).alias("rows"))
    rows.write.option("compression", "zstd").parquet(str(path))
    return int(counted.get["rows"])


def create(spark: SparkSession, like: DataFrame, paths: list[str]) -> None:
    """A table with the columns of `like` of history's files as they are, of which MERGE reads the ids."""
    spark.sql("DROP TABLE IF EXISTS lake.db.orders")
    like.limit(0).writeTo("lake.db.orders").using("iceberg").create()
    for path in paths:
        spark.sql(f"CALL lake.system.add_files(table => 'db.orders', source_table => '`parquet`.`{path}`')")


def merged(spark: SparkSession, run: DataFrame) -> int:
    """Inserts the records with new ids; returns how many."""
    run.dropDuplicates([ID]).createOrReplaceTempView("run")
    spark.sql("MERGE INTO lake.db.orders t USING run s ON t.key = s.key WHEN NOT MATCHED THEN INSERT *")
    newest = spark.sql("SELECT summary FROM lake.db.orders.snapshots ORDER BY committed_at DESC LIMIT 1")
    return int(newest.collect()[0]["summary"]["added-records"])


def cpu_seconds() -> float:
    """Of the JVM below this process."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in children)
    return sum(int(each[11]) + int(each[12]) for each in stats) / TICKS


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
