"""The last runs topic by topic: what the overview draws as small lines."""

from collections.abc import Sequence
from typing import Any

from spark_jobs.flow import Step
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.reporting.site_files import topic_code
from spark_jobs.storage.chain import ChainEntry
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.tables.audit import TOPIC_VOLUMES

RUNS = 28
VOLUMES = tuple(name for name in TOPIC_VOLUMES.schema.names if name != "topic")


def recent(lake: ObjectStore, speaking: Sequence[ChainEntry]) -> dict[str, Any]:
    """The volumes of the last current runs; those with the most records come first."""
    runs = [
        (entry, RunTables(lake, entry.run_id).rows(Step.AUDIT, TOPIC_VOLUMES.file))
        for entry in speaking[-RUNS:]
    ]
    audited = [(entry, {row["topic"]: row for row in rows}) for entry, rows in runs if rows]
    topics = sorted({topic for _, rows in audited for topic in rows})
    lines = [_line(topic, [rows.get(topic, {}) for _, rows in audited]) for topic in topics]
    return {
        "days": [entry.day.isoformat() for entry, _ in audited],
        "topics": sorted(lines, key=lambda line: -line["records"][-1]),
    }


def _line(topic: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    series = {name: [row.get(name, 0) for row in rows] for name in VOLUMES}
    return {"name": topic, "code": topic_code(topic), **series}
