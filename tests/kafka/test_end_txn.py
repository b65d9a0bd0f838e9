"""EndTxn, every cell of the two tables (facts §3.3)."""

import pytest

from spark_jobs.kafka.coordinator.transaction_metadata import (
    EndTxnAction,
    TransactionMetadata,
    TransactionResult,
    end_txn_action,
)
from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.transaction_state import TransactionState
from spark_jobs.kafka.producers.producer_state import TransactionVersion

COMMIT, ABORT = TransactionResult.COMMIT, TransactionResult.ABORT
ACTIONS: dict[str, EndTxnAction] = {
    "ITS": KafkaError.INVALID_TXN_STATE,
    "PF": KafkaError.PRODUCER_FENCED,
    "CT": KafkaError.CONCURRENT_TRANSACTIONS,
    "OK": KafkaError.NONE,
    "->commit": TransactionState.PREPARE_COMMIT,
    "->abort": TransactionState.PREPARE_ABORT,
}
TV1_TABLE = """
    Empty           ITS       ITS
    Ongoing         ->commit  ->abort
    PrepareCommit   CT        ITS
    PrepareAbort    ITS       CT
    CompleteCommit  OK        ITS
    CompleteAbort   ITS       OK
"""
TV2_TABLE = """
    Empty           ITS       PF   ->abort  PF
    Ongoing         ->commit  PF   ->abort  PF
    PrepareCommit   PF        CT   PF       ITS
    PrepareAbort    PF        ITS  PF       CT
    CompleteCommit  ITS       OK   ->abort  ITS
    CompleteAbort   ITS       ITS  ->abort  OK
"""
STATES = {state.label: state for state in TransactionState}


def rows(table: str) -> list[tuple[TransactionState, list[EndTxnAction]]]:
    cells = [line.split() for line in table.strip().splitlines()]
    return [(STATES[state], [ACTIONS[cell] for cell in row]) for state, *row in cells]


def action(
    state: TransactionState,
    result: TransactionResult,
    version: TransactionVersion,
    *,
    pid: int = 7,
    epoch: int = 5,
    pending: TransactionState | None = None,
) -> EndTxnAction:
    metadata = TransactionMetadata(
        transactional_id="id",
        producer_id=7,
        previous_producer_id=7,
        transaction_timeout_ms=1,
        producer_epoch=5,
        state=state,
        pending_state=pending,
    )
    return end_txn_action(metadata, producer_id=pid, producer_epoch=epoch, result=result, version=version)


@pytest.mark.parametrize(("state", "expected"), rows(TV1_TABLE))
def test_row_153_older_clients_with_the_current_epoch(
    state: TransactionState, expected: list[EndTxnAction]
) -> None:
    found = [action(state, result, TransactionVersion.TV0) for result in (COMMIT, ABORT)]
    assert found == expected


@pytest.mark.parametrize(("state", "expected"), rows(TV2_TABLE))
def test_row_153_tv2_clients_with_the_current_epoch_and_with_a_retrys(
    state: TransactionState, expected: list[EndTxnAction]
) -> None:
    cells = [(COMMIT, 5), (COMMIT, 4), (ABORT, 5), (ABORT, 4)]
    found = [action(state, result, TransactionVersion.TV2, epoch=epoch) for result, epoch in cells]
    assert found == expected


@pytest.mark.parametrize("version", [TransactionVersion.TV0, TransactionVersion.TV2])
@pytest.mark.parametrize("epoch", [3, 6])
def test_row_153_any_other_epoch_is_fenced(version: TransactionVersion, epoch: int) -> None:
    assert action(TransactionState.ONGOING, COMMIT, version, epoch=epoch) is KafkaError.PRODUCER_FENCED


@pytest.mark.parametrize("version", [TransactionVersion.TV0, TransactionVersion.TV2])
def test_row_153_another_producer_id_does_not_own_the_transaction(version: TransactionVersion) -> None:
    expected = KafkaError.INVALID_PRODUCER_ID_MAPPING
    assert action(TransactionState.ONGOING, COMMIT, version, pid=8) is expected


def test_tv2_waits_for_a_pending_transition_before_it_looks_at_anything_else() -> None:
    pending = TransactionState.PREPARE_COMMIT
    tv2 = action(TransactionState.ONGOING, COMMIT, TransactionVersion.TV2, pid=8, pending=pending)
    older = action(TransactionState.ONGOING, COMMIT, TransactionVersion.TV0, pid=8, pending=pending)
    assert tv2 is KafkaError.CONCURRENT_TRANSACTIONS
    assert older is KafkaError.INVALID_PRODUCER_ID_MAPPING
