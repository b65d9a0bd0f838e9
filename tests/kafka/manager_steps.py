"""Appends to a `ProducerStateManager` without a log, at offsets that the test gives."""

from spark_jobs.kafka.producers.admission import append_batch, prepare
from spark_jobs.kafka.producers.producer_state import CompletedTxn
from spark_jobs.kafka.producers.verdict import BatchRow, Decision, Rules, Verification
from spark_jobs.sample.broker.producer_state_manager import ProducerStateManager
from tests.cases.admission import CLIENT
from tests.cases.batch_rows import T0, data

NOW = T0 + 1000
DAY = 86_400_000


def append(
    manager: ProducerStateManager,
    row: BatchRow,
    *,
    at: int,
    rules: Rules = CLIENT,
) -> tuple[Decision, CompletedTxn | None]:
    """Checks `row` as an append of its own at offset `at` and merges it if accepted."""
    producer_id = row.header.producer_id
    admission = append_batch(
        prepare(manager.producers.get(producer_id), producer_id),
        row.header,
        offset=at,
        rules=rules,
        marker=row.marker,
        verification=Verification(entry=manager.verification_states.get(producer_id)),
    )
    if admission.info is not None:
        manager.update(admission.info, [admission.started] if admission.started else [])
        manager.update_map_end_offset(at + row.header.last_offset_delta + 1)
    return admission.decision, admission.completed


def complete(manager: ProducerStateManager, row: BatchRow, *, at: int, rules: Rules) -> int | None:
    """Appends a marker and completes its transaction; returns the LSO for the transaction index."""
    _, completed = append(manager, row, at=at, rules=rules)
    if completed is None:
        return None
    last_stable_offset = manager.last_stable_offset(completed)
    manager.complete_txn(completed)
    return last_stable_offset


def manager_at(*rows: BatchRow) -> ProducerStateManager:
    """A manager after `rows`, at consecutive offsets from 0."""
    manager = ProducerStateManager()
    for row in rows:
        append(manager, row, at=manager.last_map_offset)
    return manager


def reloaded(
    manager: ProducerStateManager, *, start: int = 0, end: int, now: int = NOW
) -> ProducerStateManager:
    """A new manager loaded from the snapshots alone."""
    fresh = ProducerStateManager(dict(manager.snapshots))
    fresh.truncate_and_reload(start, end, now)
    return fresh


def snapshots_at(*offsets: int) -> ProducerStateManager:
    """A manager with one producer and a snapshot at each offset."""
    manager = ProducerStateManager()
    for sequence, offset in enumerate(offsets):
        append(manager, data(seq=sequence), at=offset - 1)
        manager.take_snapshot()
    return manager
