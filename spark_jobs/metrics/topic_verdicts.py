"""Batches by topic and verdict."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow.compute as pc

from spark_jobs.flow import Step
from spark_jobs.protocol.verdict import VERDICTS
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.storage.parquet_file import iter_rows
from spark_jobs.tables.admit import ADMITTED_PARTITIONS

MIXED = frozenset(group for group, size in Counter(each.group for each in VERDICTS).items() if size > 1)
"""Groups of several verdicts, whose counts are not broken down."""
SINGLE = {each.group: each for each in VERDICTS if each.group not in MIXED}


def topic_verdicts(tables: RunTables) -> dict[str, Counter[str]]:
    """Topic → verdict → batches, for every topic with objects in the run."""
    found: dict[str, Counter[str]] = {}
    for row in tables.rows(Step.ADMIT, ADMITTED_PARTITIONS.file):
        found.setdefault(row["topic"], Counter()).update(_verdicts(tables, row))
    return found


def _verdicts(tables: RunTables, row: Mapping[str, Any]) -> Mapping[str, int]:
    """Of one partition; its batches are only read where the counts of its groups leave something open."""
    if not any(row[group] for group in MIXED):
        return {verdict.value: row[group] for group, verdict in SINGLE.items()}
    counts: Counter[str] = Counter()
    for rows in iter_rows(tables.lake, tables.key(Step.ADMIT, row["batches"]), columns=["verdict"]):
        found: Any = pc.value_counts(rows.column("verdict"))
        names, numbers = found.field("values").to_pylist(), found.field("counts").to_pylist()
        counts.update(dict(zip(names, numbers, strict=True)))
    return counts
