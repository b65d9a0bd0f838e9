"""Replay of compacted logs (facts §8, rows 112-119 of facts §9).

Onceover does not compact; it must read what compaction leaves. Each log here is written as a cleaner would
leave it, and loaded after an unclean shutdown, so that everything is derived from the batches.
"""

from dataclasses import replace

from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.control_record import ControlType, write_marker_record
from spark_jobs.kafka.formats.indexes import AbortedTxn
from spark_jobs.kafka.formats.log_files import LogFileKind, segment_file_name
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.sample.broker.log_loader import load
from spark_jobs.sample.broker.partition_log import PartitionLog
from tests.cases.batch_rows import T0
from tests.kafka.broker_batches import abort_batch, commit_batch, compacted_batch, data_batch
from tests.kafka.log_steps import NOW, UNVERIFIED


def replayed(*segments: tuple[int, bytes]) -> PartitionLog:
    """The log of these segments (base offset, batches), read from its start; everything is replicated."""
    files = {segment_file_name(base, LogFileKind.LOG): data for base, data in segments}
    log = load(files, clean=False, now=NOW, config=UNVERIFIED)
    log.update_high_watermark(log.log_end_offset)
    return log


def emptied_control_batch(*, pid: int = 1, epoch: int = 0, at: int) -> bytes:
    """A marker batch whose record the cleaner removed."""
    return build_batch(
        records=(),
        base_timestamp=-1,
        max_timestamp=T0,
        base_offset=at,
        last_offset_delta=0,
        partition_leader_epoch=0,
        producer_id=pid,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
    )


def commit_with_delete_horizon(*, horizon: int, at: int, coord: int, ts: int) -> bytes:
    """A COMMIT marker one cleaning later: its base timestamp is a deadline now (facts §8.7)."""
    record = write_marker_record(control_type=ControlType.COMMIT, coordinator_epoch=coord)
    return build_batch(
        records=[replace(record, timestamp_delta=ts - horizon)],
        base_timestamp=horizon,
        base_offset=at,
        partition_leader_epoch=0,
        producer_id=1,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
        has_delete_horizon=True,
    )


def test_row_112_resends_of_cleaned_batches_get_their_original_offsets() -> None:
    log = replayed((
        0,
        compacted_batch(pid=1, deltas=(2,), last_delta=2, at=0)
        + compacted_batch(pid=2, deltas=(0,), last_delta=2, at=3)
        + compacted_batch(pid=3, deltas=(0, 1), last_delta=1, at=6),
    ))  # fmt: skip
    resends = [
        log.append(data_batch(pid=pid, count=count), now=NOW) for pid, count in ((1, 3), (2, 3), (3, 2))
    ]
    assert {result.decision.verdict for result in resends} == {Verdict.DUPLICATE}
    assert [(r.base_offset, r.decision.last_offset) for r in resends] == [(0, 2), (3, 5), (6, 7)]


def test_row_113_an_emptied_last_batch_keeps_its_producers_sequence() -> None:
    log = replayed((
        0,
        compacted_batch(pid=1, seq=0, last_delta=1, at=0)
        + compacted_batch(pid=2, seq=5, last_delta=1, at=2)
        + data_batch(pid=3, seq=9, at=4),
    ))  # fmt: skip
    assert {pid: (e.last_data_offset, e.last_sequence) for pid, e in log.manager.producers.items()} == {
        1: (1, 1),
        2: (3, 6),
        3: (4, 9),
    }
    assert log.append(data_batch(pid=1, seq=2), now=NOW).base_offset == 5


def test_row_114_a_cleaned_aborted_transaction_is_still_opened_closed_and_indexed() -> None:
    log = replayed((0, compacted_batch(txn=True, seq=3, last_delta=2, at=4) + abort_batch(at=7)))
    assert log.aborted == (AbortedTxn(producer_id=1, first_offset=4, last_offset=7, last_stable_offset=8),)
    assert log.first_unstable_offset is None
    assert log.manager.producers[1].last_sequence == 5


def test_row_115_once_its_last_batch_is_gone_a_marker_closes_nothing_and_then_goes_too() -> None:
    newer = data_batch(seq=6, at=8)
    only_marker = replayed((0, abort_batch(at=7) + newer))
    assert only_marker.aborted == ()
    assert only_marker.manager.producers[1].last_sequence == 6
    nothing = replayed((0, newer))
    assert nothing.aborted == ()
    assert nothing.manager.producers[1].batches == only_marker.manager.producers[1].batches
    assert nothing.manager.producers[1].coordinator_epoch == -1, "nothing tells of the coordinator any more"


def test_row_116_a_marker_with_a_delete_horizon_keeps_its_time_and_ends_nothing() -> None:
    log = replayed((0, commit_with_delete_horizon(horizon=T0 + 10**9, at=3, coord=6, ts=T0)))
    entry = log.manager.producers[1]
    assert (entry.last_timestamp, entry.coordinator_epoch, entry.batches) == (T0, 6, ())
    assert (log.log_end_offset, log.first_unstable_offset) == (4, None)


def test_row_117_a_producer_known_by_an_emptied_marker_alone_has_no_epoch_and_no_age() -> None:
    batch = emptied_control_batch(epoch=4, at=2)
    follower = PartitionLog(now=NOW)
    follower.append_as_follower(batch, now=NOW)
    entry = follower.manager.producers[1]
    assert (entry.producer_epoch, entry.last_timestamp, entry.current_txn_first_offset) == (-1, -1, None)
    log = replayed((0, batch))
    assert log.log_end_offset == 3
    assert log.manager.is_empty, "an entry without a time has expired when its snapshot is read"


def test_row_118_a_marker_in_a_later_segment_closes_what_is_left_of_its_transaction() -> None:
    first = compacted_batch(pid=1, txn=True, last_delta=3, at=0) + data_batch(pid=2, txn=True, at=4)
    second = commit_batch(pid=2, at=5) + abort_batch(pid=1, at=6)
    log = replayed((0, first), (5, second))
    assert [segment.aborted for segment in log.segments] == [
        (),
        (AbortedTxn(producer_id=1, first_offset=0, last_offset=6, last_stable_offset=7),),
    ]
    assert log.first_unstable_offset is None


def test_row_119_group_coordinator_batches_repeat_sequence_0_and_may_vanish() -> None:
    batches = [data_batch(pid=8, seq=0, txn=True, at=n) for n in (0, 2, 6)]
    log = replayed((0, batches[0] + commit_batch(pid=8, at=1) + batches[1] + commit_batch(pid=8, at=3)))
    assert log.manager.producers[8].last_sequence == 0
    cleaned = replayed((0, commit_batch(pid=8, at=3) + batches[2]))
    assert cleaned.manager.producers[8].current_txn_first_offset == 6
    assert cleaned.manager.producers[8].last_sequence == 0
