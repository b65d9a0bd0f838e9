"""Completed transactions pruned from the folds of `__transaction_state`."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

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
_FOLD_FIELDS: "list[pa.Field[Any]]" = [
    pa.field(COORDINATOR, pa.int32(), nullable=False),
    pa.field("fold", pa.string(), nullable=False),
]
FOLD_ROWS = pa.schema(_FOLD_FIELDS)
"""The folds to prune: partition of `__transaction_state`, digest."""


def fold_rows(folds: tuple[tuple[int, str], ...]) -> Iterator[pa.Table]:
    """Rows of `FOLD_ROWS`."""
    yield pa.Table.from_pylist([{COORDINATOR: number, "fold": fold} for number, fold in folds], FOLD_ROWS)


def prune_fold(lake: ObjectStore, partition: int, completed: pa.Table, fold: pa.Table) -> tuple[int, str]:
    """The partition with the digest of its fold for the next run; `completed` are rows of `COMPLETED`."""
    by_id: dict[str, set[int]] = {}
    columns = (completed.column(name).to_pylist() for name in ("transactional_id", "first_record_offset"))
    for name, offset in zip(*columns, strict=True):
        by_id.setdefault(name, set()).add(offset)
    digests: list[Any] = fold.column("fold").to_pylist()
    return partition, put_content(lake, without_completed(get_content(lake, digests[0]), by_id))
