"""Prints the records of published tables as Spark's own Iceberg reader gives them, one JSON object per line.

Runs by itself in an environment that has only Spark, of a version that Iceberg's runtime was built for.
"""

import base64
import json
import sys
from datetime import datetime
from typing import Any

from pyspark.sql import SparkSession


def main(jars: str, catalog: str, warehouse: str, *tables: str) -> None:
    prefix = "spark.sql.catalog.onceover"
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "jdbc",
        f"{prefix}.uri": f"jdbc:sqlite:{catalog}",
        f"{prefix}.warehouse": warehouse,
        f"{prefix}.jdbc.schema-version": "V1",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for table in tables:
        for row in session.table(f"onceover.{table}").collect():
            print(json.dumps(_plain({"table": table, **row.asDict(recursive=True)})))
    session.stop()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return str(value) if hasattr(value, "isoformat") else value


if __name__ == "__main__":
    main(*sys.argv[1:])
