"""Coordinator records for tests: short to write, and random ones."""

from hypothesis import strategies as st

from spark_jobs.kafka.coordinator.history import CoordinatorRecord
from spark_jobs.kafka.formats.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from spark_jobs.kafka.formats.transaction_state import (
    TopicPartitions,
    TransactionLogValue,
    TransactionState,
    group_by_topic,
)
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.kafka.strategies import INT16, INT32, INT64

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
NOW = 1_700_000_000_000


def tags(lowest: int) -> st.SearchStrategy[tuple[tuple[int, bytes], ...]]:
    """Unknown tagged fields from tag `lowest` on, ascending."""
    fields = st.dictionaries(st.integers(lowest, 200), st.binary(max_size=20), max_size=3)
    return fields.map(lambda found: tuple(sorted(found.items())))


TOPIC_PARTITIONS = st.builds(
    TopicPartitions,
    topic=st.text(max_size=12),
    partition_ids=st.lists(INT32, max_size=4).map(tuple),
    tags=tags(0),
)
VALUES = st.builds(
    TransactionLogValue,
    producer_id=INT64,
    producer_epoch=INT16,
    transaction_timeout_ms=INT32,
    transaction_status=st.sampled_from(TransactionState),
    transaction_partitions=st.none() | st.lists(TOPIC_PARTITIONS, max_size=3).map(tuple),
    transaction_last_update_timestamp_ms=INT64,
    transaction_start_timestamp_ms=INT64,
    previous_producer_id=INT64,
    next_producer_id=INT64,
    client_transaction_version=INT16,
    next_producer_epoch=INT16,
    unknown_tags=tags(4),
)
OFFSET_KEYS = st.builds(
    OffsetCommitKey,
    group=st.text(max_size=12),
    topic=st.text(max_size=12),
    partition=INT32,
    record_type=st.sampled_from((0, 1)),
)
OFFSET_VALUES = st.builds(
    OffsetCommitValue,
    offset=INT64,
    metadata=st.text(max_size=12),
    commit_timestamp=INT64,
    leader_epoch=INT32,
    expire_timestamp=st.just(-1),
    topic_id=st.none() | st.binary(min_size=16, max_size=16),
    unknown_tags=tags(1),
)


def value(
    status: TransactionState,
    *partitions: TopicPartition,
    pid: int = 4000,
    epoch: int = 0,
    start: int = NOW,
    update: int | None = None,
    tv: int = 0,
    timeout: int = 60_000,
    previous_pid: int = -1,
    next_pid: int = -1,
) -> TransactionLogValue:
    """A state of a transactional id, as a broker writes it."""
    is_empty = status is TransactionState.EMPTY
    return TransactionLogValue(
        producer_id=pid,
        producer_epoch=epoch,
        transaction_timeout_ms=timeout,
        transaction_status=status,
        transaction_partitions=None if is_empty else group_by_topic(frozenset(partitions)),
        transaction_last_update_timestamp_ms=start if update is None else update,
        transaction_start_timestamp_ms=-1 if is_empty else start,
        previous_producer_id=previous_pid,
        next_producer_id=next_pid,
        client_transaction_version=tv,
    )


def history(
    *values: TransactionLogValue | None, transactional_id: str = "id", first_offset: int = 0
) -> tuple[CoordinatorRecord, ...]:
    """The records of one id; None is a tombstone."""
    return tuple(
        CoordinatorRecord(
            transactional_id=transactional_id, offset=first_offset + n, coordinator_epoch=0, value=stored
        )
        for n, stored in enumerate(values)
    )
