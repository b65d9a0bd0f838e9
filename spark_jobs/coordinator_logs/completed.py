"""What runs in a Spark task to prune completed transactions from the folds of `__transaction_state`."""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.coordinator_logs.buckets import read_grouped
from spark_jobs.coordinator_logs.timelines import without_completed
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.state_file import get_content, put_content

COORDINATOR = "coordinator_partition"
_FIELDS: "list[pa.Field[Any]]" = [
    pa.field(COORDINATOR, pa.int32(), nullable=False),
    pa.field("transactional_id", pa.string()),
    pa.field("first_record_offset", pa.int64(), nullable=False),
]
COMPLETED = pa.schema(_FIELDS)
"""Transactions of a coordinator's log of which neither data nor marker nor publication is to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneTask:
    """Partitions of `__transaction_state` with the digests of their folds; `completed` are keys of files."""

    folds: tuple[tuple[int, str], ...]
    completed: tuple[str, ...]
    lake: ObjectStore


def prune_completed(task: PruneTask) -> tuple[tuple[int, str], ...]:
    """The partitions with the digests of their folds for the next run."""
    return tuple((partition, _prune(task, partition, digest)) for partition, digest in task.folds)


def _prune(task: PruneTask, partition: int, digest: str) -> str:
    own = range(partition, partition + 1)
    rows = read_grouped(task.lake, task.completed, COORDINATOR, own, schema=COMPLETED)
    completed: dict[str, set[int]] = {}
    columns = (rows.column(name).to_pylist() for name in ("transactional_id", "first_record_offset"))
    for name, offset in zip(*columns, strict=True):
        completed.setdefault(name, set()).add(offset)
    return put_content(task.lake, without_completed(get_content(task.lake, digest), completed))
