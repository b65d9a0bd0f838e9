"""A coordinator without requests: timeouts, expiry, reload, listing (facts §3.1, §3.6)."""

from functools import partial

from spark_jobs.kafka.coordinator.transaction_metadata import TransactionMetadata, TransactionResult
from spark_jobs.kafka.formats.transaction_state import TransactionState
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from spark_jobs.sample.broker.coordinator import TransactionCoordinator, list_transactions
from tests.kafka.coordinator_steps import coordinator, init, states
from tests.kafka.coordinator_values import NOW, ORDERS_0, ORDERS_1, value

COMMIT, ABORT = TransactionResult.COMMIT, TransactionResult.ABORT
ONGOING, EMPTY = TransactionState.ONGOING, TransactionState.EMPTY
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
DAY = 24 * 3_600_000


def test_row_148_only_an_ongoing_transaction_past_its_timeout_is_aborted() -> None:
    made = coordinator(
        late=value(ONGOING, ORDERS_0, start=NOW - 60_001),
        young=value(ONGOING, ORDERS_0, start=NOW - 60_000),
        two_phase=value(ONGOING, ORDERS_0, start=0, timeout=2**31 - 1),
        prepared=value(PREPARE_COMMIT, ORDERS_0, start=0),
        complete=value(COMPLETE_ABORT, start=0),
        empty=value(EMPTY),
    )
    effects = made.abort_timed_out(now=NOW)
    assert effects.reply == ("late",)
    assert states(effects.records) == [PREPARE_ABORT]
    assert [marker.result for marker in effects.markers] == [ABORT]


def test_row_158_a_timeout_in_an_old_cluster_bumps_the_epoch_and_drops_the_last() -> None:
    made = TransactionCoordinator(transaction_version=TransactionVersion.TV0)
    made.reload(coordinator_epoch=0, values={"id": value(ONGOING, ORDERS_0, epoch=4, start=0)})
    made.abort_timed_out(now=NOW)
    after = made.transactions["id"]
    assert (after.state, after.producer_epoch, after.last_producer_epoch) == (PREPARE_ABORT, 5, -1)
    assert after.client_transaction_version == 0


def test_a_fence_in_a_tv2_cluster_marks_even_an_old_clients_transaction_as_tv2() -> None:
    made = coordinator(id=value(ONGOING, ORDERS_0, epoch=4, start=0))
    made.abort_timed_out(now=NOW)
    assert made.transactions["id"].client_transaction_version == 2


def test_row_149_unused_ids_get_tombstones_unless_a_transaction_is_running() -> None:
    old = NOW - 7 * DAY
    made = coordinator(
        empty=value(EMPTY, update=old),
        committed=value(COMPLETE_COMMIT, start=0, update=old),
        aborted=value(COMPLETE_ABORT, start=0, update=old),
        fresh=value(EMPTY, update=old + 1),
        ongoing=value(ONGOING, ORDERS_0, start=0, update=old),
        prepared=value(PREPARE_ABORT, ORDERS_0, start=0, update=old),
    )
    tombstones = made.expired(now=NOW)
    assert {t.transactional_id for t in tombstones} == {"empty", "committed", "aborted"}
    assert all(t.value is None for t in tombstones)
    assert len(made.transactions) == 6, "until the tombstones are written, the ids are known"
    made.prune(tombstones)
    assert set(made.transactions) == {"fresh", "ongoing", "prepared"}


def test_row_147_prepared_transactions_send_their_markers_again_with_the_new_coordinator_epoch() -> None:
    made = coordinator(
        a=value(PREPARE_COMMIT, ORDERS_0, pid=1, epoch=4),
        b=value(PREPARE_ABORT, ORDERS_1, pid=2, epoch=5, tv=2),
        c=value(ONGOING, ORDERS_0, pid=3),
    )
    effects = made.reload(coordinator_epoch=9)
    sent = {m.transactional_id: (m.result, m.producer_epoch, m.coordinator_epoch) for m in effects.markers}
    assert sent == {"a": (COMMIT, 4, 9), "b": (ABORT, 5, 9)}
    assert effects.records == ()


def test_a_restarted_broker_draws_from_a_new_block_of_producer_ids() -> None:
    made = TransactionCoordinator()
    first = init(made).reply.producer_id
    made.reload(coordinator_epoch=1)
    second = made.init_producer_id(None, timeout_ms=1, now=NOW).reply.producer_id
    assert (first, second) == (0, 1000)


def test_row_150_listing_filters_and_never_shows_what_is_being_removed() -> None:
    made = coordinator(
        one=value(ONGOING, ORDERS_0, pid=1, start=NOW - 1000),
        two=value(ONGOING, ORDERS_0, pid=2, start=NOW),
        three=value(EMPTY, pid=3),
    )
    dead = TransactionMetadata(
        transactional_id="dead", producer_id=4, transaction_timeout_ms=1, state=TransactionState.DEAD
    )
    everyone = (*made.transactions.values(), dead)

    listed = partial(list_transactions, everyone, now=NOW)
    assert ids(listed()) == {"one", "two", "three"}
    assert ids(listed(producer_ids=[2, 4])) == {"two"}
    assert ids(listed(states=[ONGOING, TransactionState.DEAD])) == {"one", "two"}
    assert ids(listed(states=[ONGOING], min_duration_ms=999)) == {"one"}
    assert ids(listed(pattern="t.*")) == {"two", "three"}


def ids(found: tuple[TransactionMetadata, ...]) -> set[str]:
    return {metadata.transactional_id for metadata in found}
