"""Transactions on a partition: markers, the aborted index, unstable offsets, fetches (facts §2.8, §4)."""

import pytest

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.indexes import AbortedTxn
from spark_jobs.kafka.formats.record_batch import read_header
from spark_jobs.kafka.producers.producer_state import AppendOrigin, CompletedTxn, TransactionVersion
from spark_jobs.sample.broker.log_loader import load
from spark_jobs.sample.broker.log_segment import LogSegment
from spark_jobs.sample.broker.partition_log import PartitionLog, fetch
from spark_jobs.sample.broker.replica_log import PartitionConfig
from tests.kafka.broker_batches import abort_batch, commit_batch, data_batch, plain_batch
from tests.kafka.log_steps import NOW, Writer, fetched_offsets, log_bytes, mixed_transactions

MIXED_INDEX = (
    AbortedTxn(producer_id=1, first_offset=0, last_offset=29, last_stable_offset=8),
    AbortedTxn(producer_id=2, first_offset=8, last_offset=74, last_stable_offset=36),
)


def test_row_076_aborted_transactions_are_indexed_with_the_oldest_open_other() -> None:
    assert mixed_transactions().aborted == MIXED_INDEX


def test_row_077_one_follower_append_gives_the_same_index_here() -> None:
    follower = PartitionLog(now=NOW)
    follower.append_as_follower(log_bytes(mixed_transactions()), now=NOW)
    assert follower.aborted == MIXED_INDEX
    assert follower.log_end_offset == 90


def test_row_078_the_first_unstable_offset_follows_the_high_watermark() -> None:
    log = mixed_transactions()
    found = []
    for high_watermark in (30, 75, log.log_end_offset):
        log.update_high_watermark(high_watermark)
        found.append(log.first_unstable_offset)
    assert found == [8, 36, None]


def test_row_079_a_decided_transaction_stays_unstable_until_its_marker_is_replicated() -> None:
    writer = Writer()
    writer.data(count=3)
    writer.commit()
    found = []
    for high_watermark in (0, 3, 4):
        writer.log.update_high_watermark(high_watermark)
        found.append((writer.log.first_unstable_offset, writer.log.last_stable_offset))
    assert found == [(0, 0), (0, 0), (None, 4)]


def test_row_080_a_committed_read_ends_at_the_last_stable_offset() -> None:
    writer = Writer()
    writer.data(1, 5)
    writer.plain(3)
    writer.data(2, 2)
    writer.replicate()
    assert_readable_below(writer.log, 0)
    writer.commit(1)
    writer.replicate()
    assert_readable_below(writer.log, 8)
    writer.abort(2)
    writer.replicate()
    assert_readable_below(writer.log, writer.log.log_end_offset)


def assert_readable_below(log: PartitionLog, bound: int) -> None:
    assert log.last_stable_offset == bound
    assert all(fetched_offsets(log, offset) for offset in range(bound))
    assert not any(fetched_offsets(log, offset) for offset in range(bound, log.log_end_offset + 1))


def open_transaction_then_plain() -> Writer:
    """A transaction at offsets 0-4 that stays open, then plain batches of 3 and 5."""
    writer = Writer()
    writer.data(1, 5)
    writer.plain(3)
    writer.plain(5)
    writer.replicate()
    return writer


def test_row_081_a_log_start_inside_the_log_lifts_the_unstable_offset() -> None:
    writer = open_transaction_then_plain()
    writer.log.delete_records(5)
    assert writer.log.first_unstable_offset == 5
    assert writer.log.manager.first_undecided_offset == 0


def test_row_082_a_deleted_segment_with_the_transactions_start_lifts_it_too() -> None:
    writer = Writer()
    writer.data(1, 5)
    writer.plain(3)
    writer.log.roll(NOW)
    writer.plain(2)
    writer.replicate()
    writer.log.delete_records(8)
    writer.log.delete_old_segments()
    assert [segment.base_offset for segment in writer.log.segments] == [8]
    assert writer.log.first_unstable_offset == 8


def test_a_log_start_in_the_middle_of_a_batch_makes_its_first_offset_unstable() -> None:
    """The unstable offset is that of a batch, so it may be just before the log start (facts §4.1)."""
    writer = open_transaction_then_plain()
    writer.log.delete_records(6)
    assert writer.log.first_unstable_offset == 5


def test_row_083_if_the_index_cannot_be_written_the_data_stays_and_nothing_becomes_stable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer = Writer()
    writer.data(1, 10)

    def fail(segment: LogSegment, completed: CompletedTxn, last_stable_offset: int) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(LogSegment, "update_txn_index", fail)
        with pytest.raises(OSError, match="no space"):
            writer.abort(1)
    assert (writer.log.log_end_offset, writer.log.last_stable_offset) == (11, 0)
    recovered = load(writer.log.files(), clean=False, now=NOW)
    assert len(recovered.aborted) == 1
    recovered.update_high_watermark(11)
    assert recovered.first_unstable_offset is None


def test_row_084_an_aborted_transaction_over_two_segments_is_listed_for_a_fetch_of_the_first() -> None:
    writer = Writer()
    writer.data(1, 5)
    writer.log.roll(NOW)
    writer.data(1, 5)
    writer.abort(1)
    writer.replicate()
    answer = fetch(writer.log, 0, read_committed=True)
    assert [(txn.producer_id, txn.first_offset) for txn in answer.aborted] == [(1, 0)]
    assert not fetch(writer.log, 0, read_committed=False).aborted


def test_row_085_a_zombie_coordinators_marker_is_refused() -> None:
    writer = Writer()
    writer.data(1)
    assert writer.commit(1, coord=1).kafka_error is KafkaError.NONE
    assert writer.commit(1, coord=2).kafka_error is KafkaError.NONE
    assert writer.abort(1, coord=1).kafka_error is KafkaError.TRANSACTION_COORDINATOR_FENCED
    follower = PartitionLog(now=NOW)
    follower.append_as_follower(commit_batch(coord=1, at=0) + commit_batch(coord=2, at=1), now=NOW)
    late = Writer(log=follower).commit(1, coord=1)
    assert late.kafka_error is KafkaError.TRANSACTION_COORDINATOR_FENCED


def test_row_086_row_110_a_tv2_marker_raises_the_epoch_and_may_come_twice() -> None:
    writer = Writer()
    writer.data(1)
    marker = commit_batch(epoch=1)
    results = [writer.mark(marker, TransactionVersion.TV2) for _ in range(2)]
    assert [(r.kafka_error, r.base_offset) for r in results] == [(KafkaError.NONE, 1), (KafkaError.NONE, 2)]
    assert writer.log.manager.producers[1].producer_epoch == 1
    assert writer.log.manager.first_undecided_offset is None


def test_row_087_a_follower_needs_no_transaction_version_for_markers() -> None:
    log = PartitionLog(now=NOW)
    log.append_as_follower(data_batch(txn=True, at=0) + abort_batch(at=1), now=NOW)
    assert log.log_end_offset == 2
    assert [txn.last_offset for txn in log.aborted] == [1]


def test_row_088_a_leader_does() -> None:
    log = PartitionLog(now=NOW)
    with pytest.raises(ValueError, match="transaction version"):
        log.append(abort_batch(), now=NOW, origin=AppendOrigin.COORDINATOR)


ONE_FETCH = (
    data_batch(pid=1, seq=0, count=5, txn=True, at=0),
    abort_batch(pid=1, at=5),
    data_batch(pid=1, seq=5, count=2, txn=True, at=6),
    plain_batch(count=2, at=8),
    data_batch(pid=2, seq=0, count=2, txn=True, at=10),
)


def replica(*fetches: bytes, index_interval_bytes: int = 4096) -> PartitionLog:
    log = PartitionLog(PartitionConfig(index_interval_bytes=index_interval_bytes), now=NOW)
    for records in (*fetches, abort_batch(pid=1, at=12), abort_batch(pid=2, at=13)):
        log.append_as_follower(records, now=NOW)
    log.update_high_watermark(log.log_end_offset)
    return log


def test_row_176_the_stable_offset_in_the_index_depends_on_how_batches_came() -> None:
    at_once, one_by_one = replica(b"".join(ONE_FETCH)), replica(*ONE_FETCH)
    assert [txn.last_stable_offset for txn in at_once.aborted] == [10, 10, 14]
    assert [txn.last_stable_offset for txn in one_by_one.aborted] == [6, 10, 14]
    keys = [
        [(t.producer_id, t.first_offset, t.last_offset) for t in log.aborted] for log in (at_once, one_by_one)
    ]
    assert keys[0] == keys[1]


def test_row_177_a_fetch_from_the_first_replica_hides_one_aborted_transaction_less() -> None:
    at_once = replica(b"".join(ONE_FETCH), index_interval_bytes=1)
    one_by_one = replica(*ONE_FETCH, index_interval_bytes=1)
    size = sum(len(batch) for batch in ONE_FETCH[:3])
    answers = [fetch(log, 0, read_committed=True, max_bytes=size) for log in (at_once, one_by_one)]
    assert [
        [read_header(log_bytes(at_once), b.position).base_offset for b in a.batches] for a in answers
    ] == [
        [0, 5, 6],
        [0, 5, 6],
    ]
    listed = [[(txn.producer_id, txn.first_offset) for txn in answer.aborted] for answer in answers]
    assert listed == [[(1, 0)], [(1, 0), (1, 6)]]
