"""The transaction coordinator's answers, records and markers (facts §3.3-3.5)."""

from dataclasses import replace

import pytest

from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.transaction_state import TransactionState
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.sample.broker.coordinator import (
    Effects,
    ProducerIdReply,
    TransactionCoordinator,
    TransactionUpdate,
    refuse_add,
    refuse_init,
    refuse_verify,
)
from tests.kafka.coordinator_steps import coordinator, init, states
from tests.kafka.coordinator_values import NOW, ORDERS_0, ORDERS_1, value

COMMIT, ABORT = TransactionResult.COMMIT, TransactionResult.ABORT
TV0, TV2 = TransactionVersion.TV0, TransactionVersion.TV2
ONGOING, EMPTY = TransactionState.ONGOING, TransactionState.EMPTY
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT


def identity(reply: ProducerIdReply) -> tuple[KafkaError, int, int]:
    return reply.error, reply.producer_id, reply.producer_epoch


# -- InitProducerId (facts §3.4) ---------------------------------------------------------------------------


def test_a_producer_without_an_id_gets_a_fresh_producer_id_and_leaves_no_trace() -> None:
    effects = coordinator().init_producer_id(None, timeout_ms=60_000, now=NOW)
    assert identity(effects.reply) == (KafkaError.NONE, 5000, 0)
    assert effects.records == ()


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "error"),
    [
        ("", 60_000, KafkaError.INVALID_REQUEST),
        ("id", 0, KafkaError.INVALID_TRANSACTION_TIMEOUT),
        ("id", 900_001, KafkaError.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_an_empty_id_and_a_bad_timeout_are_refused(
    transactional_id: str, timeout_ms: int, error: KafkaError
) -> None:
    effects = coordinator().init_producer_id(transactional_id, timeout_ms=timeout_ms, now=NOW)
    assert identity(effects.reply) == (error, -1, -1)


def test_a_new_id_is_stored_as_empty_with_epoch_0() -> None:
    effects = init(coordinator())
    assert identity(effects.reply) == (KafkaError.NONE, 5000, 0)
    stored = value(EMPTY, pid=5000, previous_pid=5000, update=NOW)
    assert effects.records == (TransactionUpdate(transactional_id="id", value=stored),)


def test_row_151_init_during_a_transaction_aborts_it_and_asks_the_caller_to_come_back() -> None:
    made = coordinator(id=value(ONGOING, ORDERS_0, epoch=4))
    effects = init(made)
    assert identity(effects.reply) == (KafkaError.CONCURRENT_TRANSACTIONS, -1, -1)
    assert states(effects.records) == [PREPARE_ABORT]
    (marker,) = effects.markers
    assert (marker.producer_epoch, marker.coordinator_epoch, marker.result) == (5, 3, ABORT)
    made.complete("id", now=NOW)
    assert identity(init(made).reply) == (KafkaError.NONE, 4000, 6)


def test_row_152_init_during_a_transaction_at_the_last_epoch_bumps_it_once() -> None:
    (marker,) = init(coordinator(id=value(ONGOING, ORDERS_0, epoch=32766, tv=2))).markers
    assert marker.producer_epoch == 32767


@pytest.mark.parametrize("state", [PREPARE_COMMIT, PREPARE_ABORT])
def test_init_waits_until_markers_are_written(state: TransactionState) -> None:
    assert init(coordinator(id=value(state, ORDERS_0))).reply.error is KafkaError.CONCURRENT_TRANSACTIONS


def test_an_exhausted_epoch_rotates_the_producer_id() -> None:
    effects = init(coordinator(id=value(EMPTY, epoch=32766)))
    assert identity(effects.reply) == (KafkaError.NONE, 5000, 0)


@pytest.mark.parametrize(
    ("expected", "reply"),
    [
        pytest.param((4000, 32766), (KafkaError.NONE, 5000, 0), id="row-157 the lost answer again"),
        pytest.param((4000, 32765), (KafkaError.PRODUCER_FENCED, -1, -1), id="row-157 an older epoch"),
        pytest.param((4001, 32766), (KafkaError.PRODUCER_FENCED, -1, -1), id="row-157 another producer id"),
    ],
)
def test_a_retry_after_rotation_is_known_by_the_old_producer_id_and_its_last_epoch(
    expected: tuple[int, int], reply: tuple[KafkaError, int, int]
) -> None:
    made = coordinator(id=value(EMPTY, epoch=32766))
    init(made, expected=(4000, 32766))
    assert identity(init(made, expected=expected).reply) == reply


def test_a_coordinator_that_reloaded_takes_a_retry_for_a_zombie() -> None:
    made = coordinator(id=value(EMPTY, epoch=5))
    first = init(made, expected=(4000, 5))
    assert identity(init(made, expected=(4000, 5)).reply) == identity(first.reply)
    made.reload(coordinator_epoch=4)
    assert init(made, expected=(4000, 5)).reply.error is KafkaError.PRODUCER_FENCED


# -- AddPartitions (facts §3.5) ----------------------------------------------------------------------------


def add(
    made: TransactionCoordinator, *, pid: int = 4000, epoch: int = 4, version: TransactionVersion = TV0
) -> Effects[KafkaError]:
    return made.add_partitions(
        "id",
        producer_id=pid,
        producer_epoch=epoch,
        partitions=[ORDERS_0],
        now=NOW,
        transaction_version=version,
    )


@pytest.mark.parametrize(
    ("state", "pid", "epoch", "error"),
    [
        pytest.param(PREPARE_COMMIT, 4000, 4, KafkaError.CONCURRENT_TRANSACTIONS, id="row-155 prepared"),
        pytest.param(ONGOING, 4000, 3, KafkaError.PRODUCER_FENCED, id="row-155 older epoch"),
        pytest.param(ONGOING, 4000, 5, KafkaError.PRODUCER_FENCED, id="row-155 newer epoch"),
        pytest.param(ONGOING, 4001, 4, KafkaError.INVALID_PRODUCER_ID_MAPPING, id="row-155 other producer"),
    ],
)
def test_partitions_are_refused(state: TransactionState, pid: int, epoch: int, error: KafkaError) -> None:
    made = coordinator(id=value(state, ORDERS_1, epoch=4))
    assert add(made, pid=pid, epoch=epoch) == Effects(reply=error)


def test_row_155_everything_waits_for_a_pending_transition_but_verification() -> None:
    made = coordinator(id=value(ONGOING, ORDERS_0, epoch=4))
    pending = replace(made.transactions["id"], pending_state=PREPARE_COMMIT)
    assert refuse_add(pending, 1, 1) is KafkaError.CONCURRENT_TRANSACTIONS
    assert refuse_init(pending, (1, 1)) is KafkaError.CONCURRENT_TRANSACTIONS
    assert refuse_verify(pending, 4000, 4) is None


def test_an_unknown_id_maps_to_no_producer() -> None:
    assert add(coordinator()).reply is KafkaError.INVALID_PRODUCER_ID_MAPPING


def test_partitions_that_are_in_already_write_nothing() -> None:
    assert add(coordinator(id=value(ONGOING, ORDERS_0, epoch=4))) == Effects(reply=KafkaError.NONE)


@pytest.mark.parametrize(("version", "stored"), [(TV0, 0), (TV2, 2)])
def test_the_first_partition_opens_the_transaction_and_the_clients_version_is_kept(
    version: TransactionVersion, stored: int
) -> None:
    effects = add(coordinator(id=value(COMPLETE_COMMIT, epoch=4)), version=version)
    expected = value(ONGOING, ORDERS_0, epoch=4, tv=stored, previous_pid=4000)
    assert effects.records == (TransactionUpdate(transactional_id="id", value=expected),)


def test_row_156_verification_asks_for_partitions_without_adding_them() -> None:
    made = coordinator(id=value(ONGOING, ORDERS_0, epoch=4))
    answers = made.verify_partitions(
        "id", producer_id=4000, producer_epoch=4, partitions=[ORDERS_0, ORDERS_1]
    )
    assert answers == {ORDERS_0: KafkaError.NONE, ORDERS_1: KafkaError.TRANSACTION_ABORTABLE}
    assert made.transactions["id"].topic_partitions == {ORDERS_0}


@pytest.mark.parametrize(
    ("transactional_id", "epoch", "error"),
    [
        ("other", 4, KafkaError.INVALID_PRODUCER_ID_MAPPING),
        ("id", 3, KafkaError.PRODUCER_FENCED),
    ],
)
def test_verification_knows_ids_and_epochs(transactional_id: str, epoch: int, error: KafkaError) -> None:
    made = coordinator(id=value(ONGOING, ORDERS_0, epoch=4))
    found = made.verify_partitions(
        transactional_id, producer_id=4000, producer_epoch=epoch, partitions=[ORDERS_0]
    )
    assert found == {ORDERS_0: error}


# -- EndTxn (facts §3.3) -----------------------------------------------------------------------------------


def end(
    made: TransactionCoordinator,
    result: TransactionResult,
    *,
    epoch: int,
    pid: int = 4000,
    version: TransactionVersion = TV2,
) -> Effects[ProducerIdReply]:
    return made.end_txn(
        "id",
        producer_id=pid,
        producer_epoch=epoch,
        result=result,
        now=NOW,
        transaction_version=version,
    )


def test_an_old_client_commits_with_its_own_epoch() -> None:
    made = coordinator(id=value(ONGOING, ORDERS_0, ORDERS_1, epoch=4))
    effects = end(made, COMMIT, epoch=4, version=TV0)
    assert identity(effects.reply) == (KafkaError.NONE, -1, -1)
    (marker,) = effects.markers
    assert (marker.result, marker.producer_epoch, marker.transaction_version) == (COMMIT, 4, TV0)
    assert marker.topic_partitions == {ORDERS_0, ORDERS_1}
    assert states(made.complete("id", now=NOW).records) == [COMPLETE_COMMIT]


def test_a_tv2_client_learns_its_next_epoch_and_the_marker_carries_it() -> None:
    made = coordinator(id=value(ONGOING, ORDERS_0, epoch=4, tv=2))
    effects = end(made, ABORT, epoch=4)
    assert identity(effects.reply) == (KafkaError.NONE, 4000, 5)
    (marker,) = effects.markers
    assert (marker.result, marker.producer_epoch, marker.transaction_version) == (ABORT, 5, TV2)


def test_an_empty_tv2_transaction_is_aborted_without_markers_to_write() -> None:
    (marker,) = end(coordinator(id=value(EMPTY, epoch=4)), ABORT, epoch=4).markers
    assert marker.topic_partitions == frozenset()


def test_row_154_a_retry_at_the_last_epoch_waits_and_then_learns_the_new_producer_id() -> None:
    made = coordinator(id=value(ONGOING, ORDERS_0, epoch=32766, tv=2))
    assert identity(end(made, COMMIT, epoch=32766).reply) == (KafkaError.NONE, 5000, 0)
    assert end(made, COMMIT, epoch=32766).reply.error is KafkaError.CONCURRENT_TRANSACTIONS
    made.complete("id", now=NOW)
    assert identity(end(made, COMMIT, epoch=32766).reply) == (KafkaError.NONE, 5000, 0)


@pytest.mark.parametrize(
    ("transactional_id", "error"),
    [("", KafkaError.INVALID_REQUEST), ("other", KafkaError.INVALID_PRODUCER_ID_MAPPING)],
)
def test_ending_nobodys_transaction_is_refused(transactional_id: str, error: KafkaError) -> None:
    effects = coordinator().end_txn(transactional_id, producer_id=1, producer_epoch=0, result=COMMIT, now=NOW)
    assert effects.reply.error is error
