"""How to query the table of a topic: text to paste, for each engine."""

from typing import Any

from spark_jobs.config.settings import Settings
from spark_jobs.lake.iceberg.catalog import NAME, catalog_properties
from spark_jobs.lake.iceberg.holdings import TopicTable
from spark_jobs.pipeline.report.site_files import topic_code

PER_PARTITION = "SELECT partition, count(*), max(timestamp) FROM"
SHOWN = ("type", "uri", "warehouse")
"""Of a catalog's properties: others may be secrets, and come from the environment."""


def queries(settings: Settings, table: TopicTable) -> dict[str, str]:
    """The queries by engine."""
    properties = catalog_properties(settings)
    arguments = ", ".join(f"{name}={properties[name]!r}" for name in SHOWN if name in properties)
    return {
        "python": (
            "from pyiceberg.catalog import load_catalog\n"
            f"catalog = load_catalog({NAME!r}, {arguments})\n"
            f"records = catalog.load_table({table.name!r}).scan().to_duckdb('records')\n"
            f"records.sql('{PER_PARTITION} records GROUP BY partition').show()"
        ),
        "duckdb": (
            "INSTALL iceberg; LOAD iceberg;\n"
            f"{PER_PARTITION} iceberg_scan({_quoted(table.metadata)}) GROUP BY partition;"
        ),
        "spark": f"{PER_PARTITION} {NAME}.{table.name} GROUP BY partition",
    }


def table_view(settings: Settings, table: TopicTable) -> tuple[str, dict[str, Any]]:
    """What a topic's page shows of its table, by the topic's code: only what the next run does not change."""
    texts = queries(settings, table)
    shown = {"name": table.name, "location": table.location}
    return topic_code(table.topic), {**shown, "python": texts["python"], "spark": texts["spark"]}


def _quoted(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
