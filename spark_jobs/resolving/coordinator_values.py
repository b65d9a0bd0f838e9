"""Keys and values of `__transaction_state` by a short way, for the many that hold nothing unusual.

The log repeats itself: ids come again with each of their transactions, lists of partitions with each state.
So both are read once and remembered. Whatever this way does not finish goes the plain way of
`protocol.coordinator_log`, which alone says what is an error.
"""

from functools import lru_cache
from struct import Struct

from spark_jobs.protocol.coordinator_log import (
    FLEXIBLE_VALUE_VERSION,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    UnknownKey,
    read_key,
    read_value,
)
from spark_jobs.protocol.errors import CorruptCoordinatorRecord

_HEAD = Struct(">hqhib")
_TIMES = Struct(">qq")
_STATES = tuple(TransactionState)
_REMEMBERED = 1 << 16
_ONE_BYTE = 0x7F


@lru_cache(maxsize=_REMEMBERED)
def key_of(data: bytes) -> TransactionLogKey | UnknownKey:
    """As `read_key`, remembered."""
    return read_key(data)


def value_of(data: bytes, *, source: str) -> TransactionLogValue:
    """As `read_value`: the part between the fixed fields is remembered."""
    if len(data) <= _HEAD.size:
        return read_value(data, source=source)
    version, producer_id, producer_epoch, timeout_ms, status = _HEAD.unpack_from(data)
    times = _end_of_partitions(data) if version == FLEXIBLE_VALUE_VERSION else None
    if times is None or not 0 <= status < len(_STATES) or len(data) <= times + _TIMES.size:
        return read_value(data, source=source)
    last_update_ms, start_ms = _TIMES.unpack_from(data, times)
    like = _like(data[_HEAD.size : times], data[times + _TIMES.size :])
    if like is None:
        return read_value(data, source=source)
    return TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_timeout_ms=timeout_ms,
        transaction_status=_STATES[status],
        transaction_partitions=like.transaction_partitions,
        transaction_last_update_timestamp_ms=last_update_ms,
        transaction_start_timestamp_ms=start_ms,
        previous_producer_id=like.previous_producer_id,
        next_producer_id=like.next_producer_id,
        client_transaction_version=like.client_transaction_version,
        next_producer_epoch=like.next_producer_epoch,
        unknown_tags=like.unknown_tags,
    )


def _end_of_partitions(data: bytes) -> int | None:
    """Where the list of partitions ends, if each length in it takes one byte and no topic has tags."""
    position, topics = _HEAD.size + 1, data[_HEAD.size]
    if topics > _ONE_BYTE:
        return None
    try:
        for _ in range(topics - 1):
            name = data[position]
            position += name
            partitions = data[position]
            position += 4 * partitions - 3
            if not (0 < name <= _ONE_BYTE and 0 < partitions <= _ONE_BYTE) or data[position]:
                return None
            position += 1
    except IndexError:
        return None
    return position


@lru_cache(maxsize=_REMEMBERED)
def _like(partitions: bytes, tags: bytes) -> TransactionLogValue | None:
    """A value with these partitions and tags; None if a plain reader refuses it."""
    head = _HEAD.pack(FLEXIBLE_VALUE_VERSION, 0, 0, 0, TransactionState.ONGOING)
    try:
        return read_value(head + partitions + _TIMES.pack(0, 0) + tags)
    except CorruptCoordinatorRecord:
        return None
