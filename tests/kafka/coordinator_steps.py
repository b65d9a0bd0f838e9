"""A coordinator for tests, and readers of its effects."""

from spark_jobs.kafka.formats.transaction_state import TransactionLogValue, TransactionState
from spark_jobs.sample.broker.coordinator import (
    Effects,
    ProducerIdReply,
    ProducerIds,
    TransactionCoordinator,
    TransactionUpdate,
)
from tests.kafka.coordinator_values import NOW


def coordinator(**values: TransactionLogValue) -> TransactionCoordinator:
    """A TV2 coordinator that has loaded `values` and gives out producer ids from 5000 on."""
    made = TransactionCoordinator(producer_ids=ProducerIds(next_block_start=5000))
    made.reload(coordinator_epoch=3, values=values)
    return made


def init(
    made: TransactionCoordinator, *, expected: tuple[int, int] | None = None, now: int = NOW
) -> Effects[ProducerIdReply]:
    return made.init_producer_id("id", timeout_ms=60_000, now=now, expected=expected)


def states(updates: tuple[TransactionUpdate, ...]) -> list[TransactionState]:
    return [update.value.transaction_status for update in updates if update.value is not None]
