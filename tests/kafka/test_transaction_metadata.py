"""Transitions of one transactional id: epochs, rotation, legal states (facts §3.2, §9 rows 134-142)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.coordinator.transaction_metadata import (
    VALID_PREVIOUS_STATES,
    IllegalTransition,
    TransactionMetadata,
    add_partitions,
    complete,
    fence,
    from_value,
    increment_producer_epoch,
    prepare_end,
    rotate_producer_id,
    to_value,
)
from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.transaction_state import TransactionState, read_value, write_value
from spark_jobs.kafka.producers.producer_state import TransactionVersion
from tests.kafka.coordinator_values import NOW, ORDERS_0, ORDERS_1

TV1, TV2 = TransactionVersion.TV1, TransactionVersion.TV2


def metadata(
    state: TransactionState = TransactionState.EMPTY, *, epoch: int = 10, last: int = -1, version: int = 0
) -> TransactionMetadata:
    is_open = state in {
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    }
    return TransactionMetadata(
        transactional_id="id",
        producer_id=4000,
        transaction_timeout_ms=60_000,
        producer_epoch=epoch,
        last_producer_epoch=last,
        state=state,
        topic_partitions=frozenset({ORDERS_0}) if is_open else frozenset(),
        start_timestamp_ms=NOW if is_open else -1,
        client_transaction_version=version,
    )


def bumped(before: TransactionMetadata, expected: int | None = None) -> TransactionMetadata:
    after = increment_producer_epoch(before, timeout_ms=60_000, expected_epoch=expected, now=NOW)
    assert isinstance(after, TransactionMetadata)
    return after


def test_row_134_a_new_id_begins_with_epoch_0() -> None:
    after = bumped(metadata(epoch=-1))
    assert (after.producer_epoch, after.last_producer_epoch) == (0, -1)


def test_row_135_init_without_an_expected_epoch_drops_the_last_one() -> None:
    after = bumped(metadata(epoch=735, last=734))
    assert (after.producer_epoch, after.last_producer_epoch) == (736, -1)


@pytest.mark.parametrize(
    ("expected", "epochs"),
    [
        pytest.param(735, (736, 735), id="row-136 the current epoch is bumped"),
        pytest.param(734, (735, 734), id="row-136 the last epoch is a retry"),
    ],
)
def test_the_expected_epoch_distinguishes_a_new_call_from_a_retry(
    expected: int, epochs: tuple[int, int]
) -> None:
    after = bumped(metadata(epoch=735, last=734), expected)
    assert (after.producer_epoch, after.last_producer_epoch) == epochs


def test_row_136_any_other_expected_epoch_is_fenced() -> None:
    before = metadata(epoch=735, last=734)
    after = increment_producer_epoch(before, timeout_ms=1, expected_epoch=733, now=NOW)
    assert after is KafkaError.PRODUCER_FENCED


def test_row_137_an_exhausted_epoch_is_not_bumped_but_the_producer_id_rotates() -> None:
    before = metadata(epoch=32766)
    with pytest.raises(IllegalTransition, match="no epoch after 32766"):
        bumped(before)
    after = rotate_producer_id(before, producer_id=5001, timeout_ms=60_000, record_last_epoch=True, now=NOW)
    assert (after.producer_id, after.producer_epoch) == (5001, 0)
    assert (after.previous_producer_id, after.last_producer_epoch) == (4000, 32766)


def test_row_138_tv2_bumps_the_epoch_when_the_end_is_prepared_and_not_again() -> None:
    prepared = prepare_end(
        metadata(TransactionState.ONGOING), TransactionState.PREPARE_COMMIT, version=TV2, now=NOW
    )
    assert (prepared.producer_epoch, complete(prepared, now=NOW).producer_epoch) == (11, 11)


def test_older_clients_keep_their_epoch() -> None:
    prepared = prepare_end(
        metadata(TransactionState.ONGOING, version=2), TransactionState.PREPARE_ABORT, version=TV1, now=NOW
    )
    assert (prepared.producer_epoch, prepared.client_transaction_version) == (10, 0)


def test_row_139_the_last_epoch_hands_over_to_the_next_producer_id() -> None:
    prepared = prepare_end(
        metadata(TransactionState.ONGOING, epoch=32766),
        TransactionState.PREPARE_COMMIT,
        version=TV2,
        next_producer_id=5001,
        now=NOW,
    )
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (4000, 32767, 5001)
    after = complete(prepared, now=NOW)
    assert (after.producer_id, after.producer_epoch, after.next_producer_id) == (5001, 0, -1)
    assert (after.last_producer_epoch, after.previous_producer_id) == (32766, 4000)


def test_row_140_fencing_uses_the_last_epoch_and_needs_one() -> None:
    fenced = fence(metadata(TransactionState.ONGOING, epoch=32766), version=TV1, now=NOW)
    assert (fenced.producer_epoch, fenced.state) == (32767, TransactionState.PREPARE_ABORT)
    with pytest.raises(IllegalTransition, match="no epoch left"):
        fence(metadata(TransactionState.ONGOING, epoch=32767), version=TV1, now=NOW)


def test_a_tv2_cluster_lets_an_abort_through_at_the_very_last_epoch() -> None:
    fenced = fence(metadata(TransactionState.ONGOING, epoch=32767), version=TV2, now=NOW)
    assert (fenced.producer_epoch, fenced.state) == (32767, TransactionState.PREPARE_ABORT)


@pytest.mark.parametrize(
    "state",
    [TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT],
)
def test_row_141_a_producer_id_never_rotates_inside_a_transaction(state: TransactionState) -> None:
    with pytest.raises(IllegalTransition, match=f"Empty cannot follow {state.label}"):
        rotate_producer_id(metadata(state), producer_id=5001, timeout_ms=1, record_last_epoch=False, now=NOW)


@pytest.mark.parametrize(
    "state",
    [TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT],
)
def test_row_142_tv2_may_abort_what_never_began(state: TransactionState) -> None:
    aborted = prepare_end(metadata(state), TransactionState.PREPARE_ABORT, version=TV2, now=NOW)
    assert (aborted.producer_epoch, aborted.start_timestamp_ms) == (11, NOW)
    with pytest.raises(IllegalTransition, match="needs TV2"):
        prepare_end(metadata(state), TransactionState.PREPARE_ABORT, version=TV1, now=NOW)


def test_the_first_partition_starts_the_transaction_and_later_ones_keep_its_start() -> None:
    first = add_partitions(metadata(), frozenset({ORDERS_0}), client_version=0, now=NOW)
    second = add_partitions(first, frozenset({ORDERS_1}), client_version=0, now=NOW + 5)
    assert second.topic_partitions == {ORDERS_0, ORDERS_1}
    assert (second.start_timestamp_ms, second.last_update_timestamp_ms) == (NOW, NOW + 5)


@pytest.mark.parametrize("state", TransactionState)
def test_nothing_follows_a_transition_that_is_still_pending(state: TransactionState) -> None:
    pending = TransactionMetadata(
        transactional_id="id",
        producer_id=1,
        transaction_timeout_ms=1,
        producer_epoch=0,
        pending_state=state,
    )
    with pytest.raises(IllegalTransition, match=f"pending {state.label}"):
        add_partitions(pending, frozenset({ORDERS_0}), client_version=0, now=NOW)


@given(state=st.sampled_from(TransactionState), epoch=st.integers(0, 32765))
def test_transitions_leave_their_input_as_it_was_and_obey_the_table(
    state: TransactionState, epoch: int
) -> None:
    before = metadata(state, epoch=epoch)
    copy = metadata(state, epoch=epoch)
    legal = state in VALID_PREVIOUS_STATES[TransactionState.ONGOING]
    try:
        after = add_partitions(before, frozenset({ORDERS_1}), client_version=2, now=NOW)
    except IllegalTransition:
        assert not legal
    else:
        assert legal
        assert after.previous_producer_id == before.producer_id
    assert before == copy


def test_a_reloaded_id_lacks_only_its_last_epoch() -> None:
    before = prepare_end(
        metadata(TransactionState.ONGOING), TransactionState.PREPARE_ABORT, version=TV2, now=NOW
    )
    after = from_value("id", read_value(write_value(to_value(before))))
    assert (before.last_producer_epoch, after.last_producer_epoch) == (10, -1)
    assert to_value(after) == to_value(before)
