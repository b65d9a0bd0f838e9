"""The topics of a run: their sums, and for each its partitions and keys."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from spark_jobs.reporting.key_skew import Skew
from spark_jobs.reporting.partition_view import COLUMNS, PartitionView
from spark_jobs.reporting.site_files import NamedData, shard_of, topic_code


def topic_rows(views: Sequence[PartitionView]) -> list[dict[str, Any]]:
    """One row per topic with batches in this run."""
    return [_row(topic, parts) for topic, parts in sorted(_by_topic(views).items())]


def _row(topic: str, parts: Sequence[PartitionView]) -> dict[str, Any]:
    verdicts: Counter[str] = Counter()
    for view in parts:
        verdicts.update(view.verdicts)
    return {
        "name": topic,
        "code": topic_code(topic),
        "partitions": len(parts),
        "batches": verdicts.total(),
        "verdicts": dict(verdicts),
        "records": sum(view.records for view in parts),
        "lag": sum(view.lag for view in parts),
        "held": sum(view.held for view in parts),
    }


def topic_files(run_id: str, views: Sequence[PartitionView], skews: dict[str, Skew]) -> Iterator[NamedData]:
    """The sums in one file; partitions and keys in a file per shard, for the page of one topic."""
    yield f"run/{run_id}/topics", topic_rows(views)
    shards: dict[str, dict[str, Any]] = defaultdict(dict)
    for topic, parts in _by_topic(views).items():
        code = topic_code(topic)
        shards[shard_of(code)][code] = {
            "name": topic,
            "columns": COLUMNS,
            "partitions": [view.shown() for view in parts],
            "keys": skews.get(topic),
        }
    for shard, topics in shards.items():
        yield f"run/{run_id}/topic/{shard}", topics


def _by_topic(views: Sequence[PartitionView]) -> dict[str, list[PartitionView]]:
    topics: dict[str, list[PartitionView]] = defaultdict(list)
    for view in views:
        topics[view.topic].append(view)
    return topics
