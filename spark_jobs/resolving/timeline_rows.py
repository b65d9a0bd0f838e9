"""The coordinator's transactions as rows of the table `timelines`, and back."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.protocol.coordinator_log import TransactionState
from spark_jobs.protocol.coordinator_transaction import CoordinatorTransaction
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transaction_timeline import IdTimeline, is_unreadable
from spark_jobs.resolving.buckets import BUCKET, bucket_of
from spark_jobs.resolving.timeline_file import CoordinatorFold
from spark_jobs.tables.rebuild import TIMELINES

_SAME = (
    "producer_epoch",
    "marker_epoch",
    "transaction_timeout_ms",
    "start_timestamp_ms",
    "last_update_timestamp_ms",
    "end_timestamp_ms",
    "client_transaction_version",
    "is_epoch_bumped",
    "is_cut",
    "has_known_past",
    "first_record_offset",
    "last_record_offset",
)
"""Columns that are called as the fields are, and hold just their values."""
_NOTHING = (None,) * (len(_SAME) + 4)
_NAMES = (
    "producer_id",
    "transactional_id",
    "is_unreadable",
    "is_news",
    "state",
    "topics",
    "partitions",
    "coordinator_epochs",
    *_SAME,
)


_STATES = {int(state): state for state in TransactionState}
_READ = (
    "producer_id",
    "transactional_id",
    "coordinator_partition",
    "is_news",
    "state",
    "topics",
    "partitions",
    "coordinator_epochs",
    *_SAME,
)


def timelines_table(fold: CoordinatorFold, partition: int, *, folded_before: int, buckets: int) -> pa.Table:
    """What `fold` says of transactions that are not settled, and whose the producer ids are.

    Records from `folded_before` on are tonight's.
    """
    rows = [row for known in fold.timelines.values() for row in _rows_of(known, fold.settled, folded_before)]
    columns: dict[str, Any] = dict(zip(_NAMES, zip(*rows, strict=True), strict=True)) if rows else {}
    arrays = {
        name: pa.array(columns.get(name, ()), TIMELINES.schema.field(name).type)
        for name in TIMELINES.schema.names
        if name not in {BUCKET, "coordinator_partition"}
    }
    producers = arrays["producer_id"].to_numpy()
    numbers = np.full(producers.size, partition, dtype=np.int32)
    return TIMELINES.cast(
        pa.table({**arrays, BUCKET: bucket_of(producers, buckets), "coordinator_partition": numbers})
    )


Row = tuple[Any, ...]


def _rows_of(known: IdTimeline, settled: frozenset[tuple[str, int]], folded_before: int) -> Iterator[Row]:
    name, unreadable = known.transactional_id, is_unreadable(known)
    for producer_id in known.producer_ids:
        yield (producer_id, name, unreadable, False, *_NOTHING)
    for txn in known.transactions:
        if (name, txn.first_record_offset) not in settled:
            is_news = txn.last_record_offset >= folded_before
            yield (txn.producer_id, name, unreadable, is_news, *_values(txn))


def _values(txn: CoordinatorTransaction) -> Row:
    listed = None if txn.topic_partitions is None else sorted(txn.topic_partitions)
    return (
        int(txn.state),
        None if listed is None else [topic for topic, _ in listed],
        None if listed is None else [partition for _, partition in listed],
        txn.coordinator_epochs,
        *(getattr(txn, field) for field in _SAME),
    )


def transactions_in(rows: pa.Table) -> Iterator[tuple[CoordinatorTransaction, int, bool]]:
    """The transactions that `rows` hold: each with its coordinator's partition and whether it is news."""
    columns = (rows.column(name).to_pylist() for name in _READ)
    for producer_id, owner, coordinator, is_news, state, topics, numbers, epochs, *same in zip(
        *columns, strict=True
    ):
        txn = CoordinatorTransaction(
            transactional_id=owner,
            producer_id=producer_id,
            state=_STATES[state],
            topic_partitions=_partitions(topics, numbers),
            coordinator_epochs=tuple(epochs),
            **dict(zip(_SAME, same, strict=True)),
        )
        yield txn, coordinator, is_news


def _partitions(topics: Iterable[str] | None, numbers: Iterable[int]) -> frozenset[TopicPartition] | None:
    return None if topics is None else _remembered(tuple(topics), tuple(numbers))


@lru_cache(maxsize=1 << 16)
def _remembered(topics: tuple[str, ...], numbers: tuple[int, ...]) -> frozenset[TopicPartition]:
    """Lists of partitions come again and again."""
    return frozenset(map(TopicPartition, topics, numbers))
