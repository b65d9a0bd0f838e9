"""Which transactional ids ListTransactions shows."""

import re
from collections.abc import Collection, Iterable

from spark_jobs.protocol.coordinator_log import TransactionState
from spark_jobs.protocol.transaction_metadata import TransactionMetadata


def list_transactions(
    transactions: Iterable[TransactionMetadata],
    *,
    now: int,
    producer_ids: Collection[int] = (),
    states: Collection[TransactionState] = (),
    min_duration_ms: int = -1,
    pattern: str | None = None,
) -> tuple[TransactionMetadata, ...]:
    """The ids that pass every filter given; one that is being removed is never shown.

    `min_duration_ms` asks for transactions that began longer ago; `pattern` must match the whole id.
    """
    return tuple(
        metadata
        for metadata in transactions
        if metadata.state is not TransactionState.DEAD
        and (not producer_ids or metadata.producer_id in producer_ids)
        and (not states or metadata.state in states)
        and (min_duration_ms < 0 or now - metadata.start_timestamp_ms > min_duration_ms)
        and (pattern is None or re.fullmatch(pattern, metadata.transactional_id))
    )
