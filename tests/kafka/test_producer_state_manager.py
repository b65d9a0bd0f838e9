"""Producer state: snapshots, truncation, expiry, unstable offsets, verification (facts §2.5-2.12)."""

import pytest

from spark_jobs.kafka.formats.snapshot import read_snapshot, write_snapshot
from spark_jobs.kafka.producers.producer_state import (
    BatchMetadata,
    ProducerStateEntry,
    TxnMetadata,
    VerificationStateEntry,
)
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.sample.broker.producer_state_manager import ProducerStateManager, analyze, merge_updates
from tests.cases.admission import CLIENT, COORDINATOR, REPLICATION
from tests.cases.batch_rows import T0, abort, commit, data
from tests.kafka.broker_batches import abort_batch, commit_batch, data_batch, scanned
from tests.kafka.manager_steps import DAY, NOW, append, complete, manager_at, reloaded, snapshots_at


def test_row_020_a_prepared_update_changes_nothing_until_it_is_merged() -> None:
    manager = manager_at(data(seq=0))
    before = manager.states
    batches = scanned(data_batch(seq=1, at=1))
    analyze(manager, *batches, rules=CLIENT)
    assert manager.states == before


def test_row_021_truncation_keeps_snapshots_behind_the_start_and_up_to_the_end() -> None:
    manager = snapshots_at(1, 2, 3, 4, 5)
    manager.truncate_and_reload(1, 3, NOW)
    assert sorted(manager.snapshots) == [2, 3]


def test_row_022_a_reload_knows_the_newest_batch_and_the_open_transaction() -> None:
    manager = manager_at(data(seq=0, txn=True), data(seq=1, txn=True))
    manager.take_snapshot()
    fresh = reloaded(manager, end=2)
    entry = fresh.producers[1]
    assert (entry.first_sequence, entry.last_sequence) == (1, 1)
    assert (entry.batches[0].first_offset, entry.last_data_offset) == (1, 1)
    assert (entry.current_txn_first_offset, fresh.first_undecided_offset) == (0, 0)
    assert append(fresh, data(seq=2, txn=True), at=2)[0].verdict is Verdict.ACCEPTED


def test_row_023_an_aborted_transaction_is_not_open_after_reload() -> None:
    manager = manager_at(data(seq=0, txn=True), data(seq=1, txn=True))
    complete(manager, abort(), at=2, rules=COORDINATOR)
    manager.take_snapshot()
    fresh = reloaded(manager, end=3)
    assert fresh.producers[1].current_txn_first_offset is None
    assert fresh.first_undecided_offset is None


def test_row_024_a_marker_alone_survives_a_reload_with_its_timestamp() -> None:
    manager = ProducerStateManager()
    append(manager, commit(ts=T0 + 7), at=0, rules=COORDINATOR)
    manager.take_snapshot()
    entry = reloaded(manager, end=1).producers[1]
    assert (entry.last_timestamp, entry.current_txn_first_offset, entry.batches) == (T0 + 7, None, ())


def test_row_025_a_fencing_abort_keeps_the_producer_alive() -> None:
    manager = manager_at(data(seq=0, txn=True, ts=T0))
    complete(manager, abort(epoch=1, ts=T0 + DAY), at=1, rules=COORDINATOR)
    manager.remove_expired_producers(T0 + DAY + 1)
    entry = manager.producers[1]
    assert (entry.producer_epoch, entry.last_data_offset, entry.batches) == (1, -1, ())


def test_row_026_a_snapshot_above_the_log_end_is_dropped() -> None:
    manager = manager_at(data(seq=0), data(seq=1))
    manager.take_snapshot()
    fresh = reloaded(manager, end=1)
    assert not fresh.snapshots
    assert not fresh.producers
    assert append(fresh, data(seq=2), at=1)[0].verdict is Verdict.ACCEPTED


def test_row_029_snapshots_before_an_offset_are_deleted() -> None:
    manager = snapshots_at(2, 3)
    manager.delete_snapshots_before(3)
    assert sorted(manager.snapshots) == [3]


def test_row_030_a_full_truncation_drops_snapshots_and_producers() -> None:
    manager = snapshots_at(1, 2)
    manager.truncate_fully_and_start_at(0)
    assert not manager.snapshots
    assert manager.is_empty
    assert manager.last_map_offset == 0


def test_row_031_restored_snapshots_are_found_after_a_full_truncation() -> None:
    manager = snapshots_at(1, 2, 3)
    restored = manager.snapshots[3]
    manager.truncate_fully_and_reload_snapshots({3: restored})
    assert (manager.latest_snapshot_offset, manager.oldest_snapshot_offset) == (3, 3)


@pytest.mark.parametrize(("end", "unstable"), [(106, None), (100, 99)])
def test_row_032_truncation_brings_back_a_transaction_that_was_decided_later(
    end: int, unstable: int | None
) -> None:
    manager = ProducerStateManager()
    append(manager, data(seq=0, txn=True), at=99)
    manager.take_snapshot()
    complete(manager, commit(), at=105, rules=COORDINATOR)
    manager.on_high_watermark_updated(106)
    manager.take_snapshot()
    manager.truncate_and_reload(0, end, NOW)
    assert manager.first_unstable_offset == unstable


def test_row_033_a_log_start_above_a_producers_data_does_not_prune_it() -> None:
    manager = manager_at(data(pid=1), data(pid=2))
    manager.truncate_and_reload(1, 2, NOW)
    assert sorted(manager.producers) == [1, 2]


def test_row_034_without_progress_there_is_no_second_snapshot() -> None:
    manager = manager_at(data(seq=0))
    manager.take_snapshot()
    first = dict(manager.snapshots)
    manager.take_snapshot()
    assert manager.snapshots == first
    assert list(first) == [1]


def test_row_035_an_idle_producer_expires_and_comes_back_as_new() -> None:
    manager = manager_at(data(seq=0, ts=T0))
    manager.remove_expired_producers(T0 + DAY - 1)
    assert 1 in manager.producers
    manager.remove_expired_producers(T0 + DAY)
    assert 1 not in manager.producers
    assert append(manager, data(seq=9), at=1)[0].verdict is Verdict.ACCEPTED


def test_row_036_an_open_transaction_never_expires() -> None:
    manager = manager_at(data(seq=0, txn=True, ts=T0))
    manager.remove_expired_producers(T0 + 100 * DAY)
    assert 1 in manager.producers


def test_row_037_row_038_an_offset_is_unstable_until_the_marker_is_replicated() -> None:
    manager = ProducerStateManager()
    append(manager, data(pid=1, txn=True), at=99)
    append(manager, data(pid=2, txn=True), at=105)
    assert manager.first_unstable_offset == 99
    complete(manager, commit(pid=1), at=109, rules=COORDINATOR)
    manager.on_high_watermark_updated(100)
    assert manager.first_unstable_offset == 99
    manager.on_high_watermark_updated(110)
    assert manager.first_unstable_offset == 105
    complete(manager, abort(pid=2), at=112, rules=COORDINATOR)
    manager.on_high_watermark_updated(113)
    assert manager.first_unstable_offset is None


def test_row_043_a_coordinator_stays_fenced_after_a_reload() -> None:
    manager = ProducerStateManager()
    append(manager, commit(coord=1), at=0, rules=COORDINATOR)
    append(manager, commit(coord=2), at=1, rules=COORDINATOR)
    manager.take_snapshot()
    fresh = reloaded(manager, end=2)
    decision, _ = append(fresh, commit(coord=1), at=2, rules=COORDINATOR)
    assert decision.verdict is Verdict.COORDINATOR_FENCED


@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage"])
def test_row_044_a_corrupt_snapshot_is_deleted_and_the_one_before_it_used(damage: str) -> None:
    manager = snapshots_at(1, 2)
    whole = manager.snapshots[2]
    damaged = {"empty": b"", "truncated": whole[:-5], "garbage": b"\x37" * len(whole)}
    manager.snapshots[2] = damaged[damage]
    fresh = reloaded(manager, end=2)
    assert sorted(fresh.snapshots) == [1]
    assert fresh.producers[1].last_sequence == 0
    assert fresh.last_map_offset == 1


@pytest.mark.parametrize(
    ("bases", "kept"),
    [
        pytest.param([5], [5, 42], id="row-046 the newest stray is kept behind the last segment"),
        pytest.param([42], [42], id="row-047 strays before the last segment go"),
    ],
)
def test_stray_snapshots(bases: list[int], kept: list[int]) -> None:
    manager = snapshots_at(2, 5, 42)
    manager.remove_stray_snapshots(bases)
    assert sorted(manager.snapshots) == kept


def test_row_048_a_snapshot_marked_for_deletion_leaves_and_a_missing_one_is_tolerated() -> None:
    manager = snapshots_at(1, 2)
    data_of_2 = manager.snapshots[2]
    assert manager.remove_snapshot(2) == data_of_2
    assert sorted(manager.snapshots) == [1]
    assert manager.remove_snapshot(2) is None


def test_row_049_a_verification_entry_keeps_the_lowest_sequence_of_the_newest_epoch() -> None:
    manager = ProducerStateManager()
    states = [
        manager.maybe_create_verification_state(1, seq, epoch, supports_epoch_bump=False, now=NOW)
        for epoch, seq in ((0, 1), (0, 0), (1, 2), (0, 1))
    ]
    assert [(state.lowest_sequence, state.producer_epoch) for state in states] == [
        (1, 0),
        (0, 0),
        (2, 1),
        (2, 1),
    ]
    assert len({state.guard for state in states}) == 1


def test_row_050_a_sequence_behind_the_lowest_verified_one_waits_for_it() -> None:
    manager = verifying(lowest=0, supports_epoch_bump=False)
    decision, _ = append(manager, data(seq=4, txn=True), at=0)
    assert (decision.verdict, decision.expected_sequence) == (Verdict.OUT_OF_ORDER, 0)
    assert 1 in manager.verification_states


@pytest.mark.parametrize(
    ("supports_epoch_bump", "sequence", "verdict"),
    [
        pytest.param(
            True, 5, Verdict.OUT_OF_ORDER, id="row-051 a TV2 transaction without state at sequence 5"
        ),
        pytest.param(True, 0, Verdict.ACCEPTED, id="row-051 a TV2 transaction without state at sequence 0"),
        pytest.param(False, 5, Verdict.ACCEPTED, id="row-052 a TV1 transaction without state at sequence 5"),
    ],
)
def test_first_batch_under_verification(supports_epoch_bump: bool, sequence: int, verdict: Verdict) -> None:
    manager = verifying(lowest=sequence, supports_epoch_bump=supports_epoch_bump)
    assert append(manager, data(seq=sequence, txn=True), at=0)[0].verdict is verdict


def test_a_tv2_producer_that_is_remembered_continues_at_its_next_sequence_under_verification() -> None:
    manager = verifying(lowest=1, supports_epoch_bump=True)
    append(manager, data(seq=0), at=0, rules=REPLICATION)
    assert append(manager, data(seq=1, txn=True), at=1)[0].verdict is Verdict.ACCEPTED


def verifying(*, lowest: int, supports_epoch_bump: bool) -> ProducerStateManager:
    manager = ProducerStateManager()
    manager.maybe_create_verification_state(1, lowest, 0, supports_epoch_bump=supports_epoch_bump, now=NOW)
    return manager


def test_row_054_the_stable_offset_of_an_ended_transaction_is_the_oldest_open_other() -> None:
    manager = ProducerStateManager()
    for producer_id, offset in ((1, 10), (2, 20), (3, 30)):
        append(manager, data(pid=producer_id, txn=True), at=offset)
    ends = [
        complete(manager, commit(pid=p), at=at, rules=COORDINATOR) for p, at in ((1, 40), (3, 50), (2, 60))
    ]
    assert ends == [20, 20, 61]


def test_row_055_one_append_of_markers_and_data_completes_only_what_had_data() -> None:
    manager = ProducerStateManager()
    records = b"".join((
        commit_batch(at=20),
        commit_batch(at=21),
        abort_batch(at=22),
        data_batch(seq=0, count=4, txn=True, at=24),
        abort_batch(at=28),
        abort_batch(at=29),
        data_batch(seq=4, count=2, txn=True, at=30),
    ))  # fmt: skip
    decision, updates = analyze(manager, *scanned(records), rules=REPLICATION)
    merge_updates(manager, updates)
    for completed in updates.completed:
        manager.complete_txn(completed)
    assert decision.verdict is Verdict.ACCEPTED
    assert [(txn.first_offset, txn.last_offset) for txn in updates.completed] == [(24, 28)]
    assert updates.started == tuple(TxnMetadata(producer_id=1, first_offset=o) for o in (24, 30))
    assert manager.first_undecided_offset == 30


def test_row_056_a_snapshot_holds_a_producer_with_and_without_a_batch() -> None:
    batch = BatchMetadata(last_sequence=1, last_offset=2, offset_delta=3, timestamp=T0)
    with_batch = ProducerStateEntry(
        producer_id=1,
        producer_epoch=2,
        coordinator_epoch=3,
        last_timestamp=T0,
        current_txn_first_offset=100,
        batches=(batch,),
    )
    without = ProducerStateEntry(
        producer_id=11, producer_epoch=12, coordinator_epoch=13, last_timestamp=123456
    )
    assert read_snapshot(write_snapshot([with_batch, without]), source="x") == (with_batch, without)


def test_row_057_a_transaction_is_late_once_its_coordinator_should_have_ended_it() -> None:
    limit = T0 + 900_000 + 300_000
    manager = ProducerStateManager()
    append(manager, data(seq=0, txn=True, ts=T0), at=100)
    assert not manager.has_late_transaction(limit)
    assert manager.has_late_transaction(limit + 1)
    manager.take_snapshot()
    assert reloaded(manager, end=101, now=limit).has_late_transaction(limit + 1)
    manager.truncate_and_reload(0, 80, limit)
    assert not manager.has_late_transaction(limit + 1)


def test_expired_producers_in_a_snapshot_are_skipped_on_reload() -> None:
    manager = manager_at(data(pid=1, ts=T0), data(pid=2, ts=T0 + DAY), data(pid=3, txn=True, ts=T0))
    manager.take_snapshot()
    fresh = reloaded(manager, end=3, now=T0 + DAY)
    assert sorted(fresh.producers) == [2, 3]


def test_verification_entries_expire_from_their_creation() -> None:
    manager = verifying(lowest=0, supports_epoch_bump=False)
    manager.remove_expired_producers(NOW + DAY - 1)
    assert manager.verification_states == {
        1: VerificationStateEntry(
            guard=1, lowest_sequence=0, producer_epoch=0, supports_epoch_bump=False, timestamp=NOW
        )
    }
    manager.remove_expired_producers(NOW + DAY)
    assert not manager.verification_states


def test_a_log_start_behind_a_decided_transaction_drops_it_but_not_an_open_one() -> None:
    manager = ProducerStateManager()
    append(manager, data(pid=1, txn=True), at=0)
    append(manager, data(pid=2, txn=True), at=1)
    complete(manager, commit(pid=1), at=2, rules=COORDINATOR)
    manager.on_log_start_offset_incremented(3)
    assert manager.first_unstable_offset == 1


def test_row_174_a_shorter_snapshot_written_over_a_longer_one_is_corrupt() -> None:
    manager = manager_at(data(pid=1), data(pid=2))
    manager.take_snapshot()
    shorter = ProducerStateManager(manager.snapshots)
    append(shorter, data(pid=1), at=1)
    shorter.take_snapshot()
    assert not reloaded(shorter, end=2).producers
