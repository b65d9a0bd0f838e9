"""The transactions of an id, as far as a compacted log shows them (facts §3.1-3.2)."""

from dataclasses import replace

import pytest

from spark_jobs.kafka.coordinator.history import CoordinatorEntry, UnreadableRecord
from spark_jobs.kafka.coordinator.timeline import CoordinatorTransaction, IdTimeline, is_unreadable, timeline
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.formats.transaction_state import TransactionLogValue, TransactionState
from tests.kafka.coordinator_values import NOW, ORDERS_0, ORDERS_1, history, value

EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT

TV2_TRANSACTION = (
    value(EMPTY, epoch=4, tv=2),
    value(ONGOING, ORDERS_0, epoch=4, tv=2),
    value(ONGOING, ORDERS_0, ORDERS_1, epoch=4, tv=2, update=NOW + 1),
    value(PREPARE_COMMIT, ORDERS_0, ORDERS_1, epoch=5, tv=2, update=NOW + 9),
    value(COMPLETE_COMMIT, epoch=5, tv=2, update=NOW + 10),
)


def reported(*values: TransactionLogValue | None) -> tuple[CoordinatorTransaction, ...]:
    return timeline("id", history(*values)).transactions


def test_a_whole_transaction_is_one_entry() -> None:
    (txn,) = reported(*TV2_TRANSACTION)
    assert (txn.producer_id, txn.producer_epoch, txn.marker_epoch) == (4000, 4, 5)
    assert (txn.start_timestamp_ms, txn.end_timestamp_ms) == (NOW, NOW + 9)
    assert txn.last_update_timestamp_ms == NOW + 10
    assert txn.topic_partitions == frozenset({ORDERS_0, ORDERS_1})
    assert (txn.state, txn.result) == (COMPLETE_COMMIT, TransactionResult.COMMIT)
    assert (txn.names_its_epoch, txn.is_epoch_bumped, txn.has_known_past) == (True, True, True)
    assert (txn.first_record_offset, txn.last_record_offset) == (1, 4)


def test_transactions_follow_each_other() -> None:
    second = (value(ONGOING, ORDERS_1, start=NOW + 20), value(PREPARE_ABORT, ORDERS_1, start=NOW + 20))
    first = (value(ONGOING, ORDERS_0), value(PREPARE_COMMIT, ORDERS_0), value(COMPLETE_COMMIT))
    found = reported(*first, *second)
    assert [txn.result for txn in found] == [TransactionResult.COMMIT, TransactionResult.ABORT]
    assert [txn.topic_partitions for txn in found] == [frozenset({ORDERS_0}), frozenset({ORDERS_1})]


@pytest.mark.parametrize(
    ("survivor", "epochs", "partitions"),
    [
        pytest.param(value(ONGOING, ORDERS_0, epoch=4), (4,), {ORDERS_0}, id="ongoing tells everything"),
        pytest.param(
            value(PREPARE_COMMIT, ORDERS_0, epoch=4), (4,), {ORDERS_0}, id="an older client's commit"
        ),
        pytest.param(
            value(PREPARE_ABORT, ORDERS_0, epoch=4), (4, 3), {ORDERS_0}, id="an older abort may be a fence"
        ),
        pytest.param(value(PREPARE_ABORT, ORDERS_0, epoch=4, tv=2), (3,), {ORDERS_0}, id="TV2 has bumped"),
        pytest.param(value(COMPLETE_COMMIT, epoch=4, tv=2), (3,), None, id="complete lists no partitions"),
    ],
)
def test_what_compaction_left_is_used_as_far_as_it_goes(
    survivor: TransactionLogValue, epochs: tuple[int, ...], partitions: set[object] | None
) -> None:
    (txn,) = reported(survivor)
    assert txn.possible_epochs == epochs
    assert txn.topic_partitions == partitions
    assert not txn.has_known_past


def test_a_list_that_is_gone_may_have_held_any_partition() -> None:
    (complete,) = reported(value(COMPLETE_COMMIT))
    (ongoing,) = reported(value(ONGOING, ORDERS_0))
    assert complete.lists(ORDERS_1)
    assert not ongoing.lists(ORDERS_1)


def test_a_fence_keeps_the_clients_own_version() -> None:
    (txn,) = reported(value(ONGOING, ORDERS_0, epoch=4), value(PREPARE_ABORT, ORDERS_0, epoch=5, tv=2))
    assert (txn.names_its_epoch, txn.is_epoch_bumped, txn.marker_epoch) == (False, True, 5)


def test_a_lone_abort_is_read_by_the_version_of_the_ids_other_transactions() -> None:
    lone = value(COMPLETE_ABORT, epoch=5, tv=2)
    older = value(ONGOING, ORDERS_0, epoch=6, start=NOW + 50)
    assert reported(lone)[0].names_its_epoch
    assert not reported(lone, older)[0].names_its_epoch


def test_the_fence_of_4_0_bumped_twice() -> None:
    (txn,) = reported(value(ONGOING, ORDERS_0, epoch=4, tv=2), value(PREPARE_ABORT, ORDERS_0, epoch=6, tv=2))
    assert (txn.producer_epoch, txn.marker_epoch) == (4, 6)


def test_an_empty_tv2_abort_is_a_transaction_without_partitions() -> None:
    found = reported(*TV2_TRANSACTION, value(PREPARE_ABORT, epoch=6, tv=2, start=NOW + 30))
    assert (found[-1].topic_partitions, found[-1].possible_epochs) == (frozenset(), (5,))


def test_the_last_epoch_belongs_to_the_old_producer_id() -> None:
    found = reported(
        value(ONGOING, ORDERS_0, epoch=32766, tv=2),
        value(PREPARE_COMMIT, ORDERS_0, epoch=32767, tv=2, previous_pid=4000, next_pid=5001),
        value(COMPLETE_COMMIT, pid=5001, epoch=0, tv=2, previous_pid=4000),
        value(ONGOING, ORDERS_0, pid=5001, epoch=0, tv=2, start=NOW + 5, previous_pid=5001),
    )
    assert [(txn.producer_id, txn.marker_epoch) for txn in found] == [(4000, 32767), (5001, None)]


@pytest.mark.parametrize(
    ("previous", "owner"),
    [
        pytest.param(4000, 4000, id="4.3 names the producer id before"),
        pytest.param(-1, -1, id="older brokers do not"),
    ],
)
def test_a_lone_completion_after_rotation_is_not_the_new_producer_ids(previous: int, owner: int) -> None:
    (txn,) = reported(value(COMPLETE_COMMIT, pid=5001, epoch=0, tv=2, previous_pid=previous))
    assert (txn.producer_id, txn.marker_epoch) == (owner, 32767)


def test_all_producer_ids_of_an_id_are_known() -> None:
    found = timeline("id", history(value(EMPTY, pid=1, next_pid=3), value(EMPTY, pid=2, previous_pid=1)))
    assert found.producer_ids == (1, 3, 2)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(history(value(EMPTY, epoch=5), first_offset=1), id="the id begins anew"),
        pytest.param(history(None, first_offset=1), id="the id expired"),
        pytest.param(history(value(ONGOING, ORDERS_0, start=NOW + 9), first_offset=1), id="the next begins"),
        pytest.param(
            (UnreadableRecord(transactional_id="id", offset=1, coordinator_epoch=0, problem="?"),),
            id="unreadable",
        ),
    ],
)
def test_a_transaction_whose_end_is_nowhere_recorded_is_cut(after: tuple[CoordinatorEntry, ...]) -> None:
    found = timeline("id", (*history(value(ONGOING, ORDERS_0)), *after))
    assert found.transactions[0].is_cut
    assert is_unreadable(found) == isinstance(after[0], UnreadableRecord)


def test_an_end_that_can_be_read_after_a_record_that_cannot_mends_the_timeline() -> None:
    unreadable = UnreadableRecord(transactional_id="id", offset=1, coordinator_epoch=0, problem="?")
    end = history(value(COMPLETE_COMMIT), first_offset=2)
    (txn,) = timeline("id", (*history(value(ONGOING, ORDERS_0)), unreadable, *end)).transactions
    assert (txn.is_cut, txn.result) == (False, TransactionResult.COMMIT)
    assert txn.topic_partitions == frozenset({ORDERS_0})


def test_states_that_are_never_persisted_begin_no_transaction() -> None:
    assert reported(value(TransactionState.DEAD)) == ()


def test_several_coordinator_epochs_are_kept() -> None:
    first, second = history(value(ONGOING, ORDERS_0), value(PREPARE_COMMIT, ORDERS_0))
    (txn,) = timeline("id", [first, replace(second, coordinator_epoch=4)]).transactions
    assert txn.coordinator_epochs == (0, 4)


@pytest.mark.parametrize("cut", range(len(TV2_TRANSACTION) + 1))
def test_a_timeline_continues_from_run_to_run(cut: int) -> None:
    entries = history(*TV2_TRANSACTION)
    before = timeline("id", entries[:cut])
    assert timeline("id", entries, before=before) == timeline("id", entries)
    assert timeline("id", entries[cut:], before=before) == timeline("id", entries)


def test_no_entry_is_no_transaction() -> None:
    assert timeline("id", ()) == IdTimeline(transactional_id="id")


@pytest.mark.parametrize(
    ("timeout", "now", "expected"),
    [(60_000, NOW + 60_000, False), (60_000, NOW + 60_001, True), (2**31 - 1, NOW + 2**40, False)],
)
def test_a_transaction_times_out_after_its_timeout_and_never_with_two_phase_commit(
    timeout: int, now: int, expected: bool
) -> None:
    (txn,) = reported(value(ONGOING, ORDERS_0, timeout=timeout))
    assert txn.is_timed_out(now) is expected
