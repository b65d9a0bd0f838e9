"""Producers that something went wrong with, the worst first."""

from collections import Counter
from collections.abc import Mapping
from heapq import nlargest
from typing import Any

from spark_jobs.flow import Step
from spark_jobs.reporting.batch_counts import ProducerCounts, Producers
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.storage.parquet_file import iter_rows

MOST = 500
MOST_PARTITIONS = 8
MOST_GAPS = 200
GAPS = "gaps"
GAP_COLUMNS = ["topic", "partition", "first_offset", "last_offset"]


def producer_view(tables: RunTables, producers: Producers, owners: Mapping[int, str]) -> dict[str, Any]:
    """The page's data; `owners` are transactional ids by producer id, where known."""
    totals: Counter[str] = Counter()
    for each in producers.values():
        totals.update(each.verdicts)
    worst = nlargest(MOST, producers.values(), key=lambda each: (each.verdicts.total(), -each.producer_id))
    return {
        "producers": [_row(each, owners) for each in worst],
        "count": len(producers),
        "totals": dict(totals),
        **_gaps(tables),
    }


def _row(producer: ProducerCounts, owners: Mapping[int, str]) -> dict[str, Any]:
    return {
        "id": producer.producer_id,
        "transactional_id": owners.get(producer.producer_id),
        "verdicts": dict(producer.verdicts),
        "accepted": producer.accepted,
        "epochs": sorted(producer.epochs.items()),
        "fenced_by": sorted(producer.fenced_by),
        "farthest": producer.farthest,
        "partitions": producer.partitions.most_common(MOST_PARTITIONS),
        "partition_count": len(producer.partitions),
    }


def _gaps(tables: RunTables) -> dict[str, Any]:
    """Offsets that no copy of a broker's log holds, the widest first."""
    widest: list[dict[str, Any]] = []
    count = 0
    for found in tables.lake.list(tables.key(Step.ADMIT, GAPS)):
        for rows in iter_rows(tables.lake, found.key, columns=GAP_COLUMNS):
            count += rows.num_rows
            widest = nlargest(MOST_GAPS, [*widest, *rows.to_pylist()], key=_width)
    return {"gaps": widest, "gap_count": count}


def _width(gap: dict[str, Any]) -> int:
    return int(gap["last_offset"] - gap["first_offset"])
