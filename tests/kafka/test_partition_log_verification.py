"""A leader verifies a transaction with the coordinator before it begins on its partition (facts §2.5)."""

import pytest

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.sample.broker.partition_log import PartitionLog
from spark_jobs.sample.broker.replica_log import PartitionConfig
from tests.kafka.broker_batches import data_batch
from tests.kafka.log_steps import NOW, UNVERIFIED, Writer

VERIFIED = PartitionConfig(transaction_partition_verification_enable=True)


def verdict_of(log: PartitionLog, batch: bytes, *, guard: int = 0) -> Verdict:
    return log.append(batch, now=NOW, verification_guard=guard).decision.verdict


def guard_for(log: PartitionLog, *, seq: int = 0, epoch: int = 0, tv2: bool = False) -> int:
    answer = log.maybe_start_transaction_verification(
        producer_id=1, sequence=seq, producer_epoch=epoch, supports_epoch_bump=tv2, now=NOW
    )
    assert not answer.is_fenced
    return answer.guard


def test_row_089_an_unverified_transaction_is_refused() -> None:
    log = PartitionLog(VERIFIED, now=NOW)
    result = log.append(data_batch(txn=True), now=NOW)
    assert (result.kafka_error, result.base_offset) == (KafkaError.INVALID_TXN_STATE, -1)
    assert verdict_of(log, data_batch(txn=True), guard=99) is Verdict.INVALID_TRANSACTION_STATE


def test_row_090_a_guard_opens_one_transaction() -> None:
    log = PartitionLog(VERIFIED, now=NOW)
    guard = guard_for(log)
    assert verdict_of(log, data_batch(txn=True), guard=guard) is Verdict.ACCEPTED
    assert not log.manager.verification_states
    assert guard_for(log, seq=1) == 0, "the transaction is open: nothing more to verify"
    assert verdict_of(log, data_batch(seq=1, txn=True)) is Verdict.ACCEPTED
    Writer(log=log).commit()
    assert guard_for(log, seq=2) not in {0, guard}


@pytest.mark.parametrize(
    ("supports_epoch_bump", "marker_epoch", "kept"),
    [
        pytest.param(False, 0, False, id="row-091 the marker of an empty transaction clears the guard"),
        pytest.param(True, 1, True, id="row-091 a TV2 marker leaves the next transaction's guard"),
        pytest.param(True, 0, False, id="row-091 a TV2 marker of another epoch clears it"),
    ],
)
def test_markers_and_guards(supports_epoch_bump: bool, marker_epoch: int, kept: bool) -> None:
    log = PartitionLog(VERIFIED, now=NOW)
    guard_for(log, epoch=1 if supports_epoch_bump else 0, tv2=supports_epoch_bump)
    Writer(log=log).commit(epoch=marker_epoch)
    assert bool(log.manager.verification_states) is kept


def test_row_092_once_verification_is_off_a_guard_is_not_asked_for() -> None:
    log = PartitionLog(VERIFIED, now=NOW)
    guard_for(log)
    log.config = UNVERIFIED
    assert verdict_of(log, data_batch(txn=True)) is Verdict.ACCEPTED
    assert not log.manager.verification_states


@pytest.mark.parametrize("tv2", [False, True], ids=["row-093 TV1", "row-093 TV2"])
def test_a_stale_epoch_is_fenced_before_verification_is_asked(tv2: bool) -> None:
    log = PartitionLog(VERIFIED, now=NOW)
    Writer(log=log).commit(epoch=2)
    assert verdict_of(log, data_batch(epoch=1, txn=True)) is Verdict.FENCED
    answer = log.maybe_start_transaction_verification(
        producer_id=1, sequence=0, producer_epoch=1, supports_epoch_bump=tv2, now=NOW
    )
    assert answer.is_fenced


def test_a_replay_clears_the_guards_of_producers_that_it_finds_in_a_transaction() -> None:
    log = PartitionLog(VERIFIED, now=NOW)
    assert verdict_of(log, data_batch(txn=True), guard=guard_for(log)) is Verdict.ACCEPTED
    Writer(log=log).commit()
    assert verdict_of(log, data_batch(seq=1)) is Verdict.ACCEPTED
    guard_for(log, seq=2)
    assert log.manager.verification_states
    log.truncate_to(2, now=NOW)
    assert not log.manager.verification_states


def test_a_followers_append_clears_guards_up_to_the_batch_that_is_refused() -> None:
    log = PartitionLog(VERIFIED, now=NOW)
    guard_for(log)
    refused = data_batch(pid=2, seq=0, txn=True, at=1) + data_batch(pid=2, seq=1, at=2)
    assert log.append_as_follower(data_batch(txn=True, at=0) + refused, now=NOW).decision.verdict is (
        Verdict.INVALID_TRANSACTION_STATE
    )
    assert log.log_end_offset == 0
    assert not log.manager.verification_states
