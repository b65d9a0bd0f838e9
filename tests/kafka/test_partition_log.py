"""A broker's partition in memory: appends, rolls, snapshots, truncation (facts §2.3, §2.12, §6.3)."""

import pytest

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.record_batch import TimestampType, assign_offset, check_batch
from spark_jobs.kafka.formats.snapshot import read_snapshot
from spark_jobs.kafka.producers.producer_state import ActiveProducer, active_producer
from spark_jobs.kafka.producers.verdict import Decision, Verdict
from spark_jobs.sample.broker.partition_log import PartitionLog
from spark_jobs.sample.broker.replica_log import PartitionConfig
from tests.cases.batch_rows import T0
from tests.kafka.broker_batches import compacted_batch, data_batch, plain_batch
from tests.kafka.log_steps import NOW, Writer, log_bytes


def verdict_of(log: PartitionLog, batch: bytes, *, guard: int = 0) -> Verdict:
    return log.append(batch, now=NOW, verification_guard=guard).decision.verdict


def test_row_058_a_resend_is_answered_with_the_original_and_writes_nothing() -> None:
    writer = Writer()
    for _ in range(6):
        writer.data(txn=False)
    writer.data(count=3, txn=False)
    before = log_bytes(writer.log)
    tail = writer.log.append(data_batch(seq=6, count=3), now=NOW)
    older = writer.log.append(data_batch(seq=2), now=NOW)
    assert [(r.base_offset, r.decision.last_offset) for r in (tail, older)] == [(6, 8), (2, 2)]
    assert {r.kafka_error for r in (tail, older)} == {KafkaError.NONE}
    assert {r.log_append_time for r in (tail, older)} == {T0}
    assert log_bytes(writer.log) == before


def test_row_059_row_060_a_partial_resend_and_one_from_beyond_the_window_are_out_of_order() -> None:
    writer = Writer()
    for _ in range(7):
        writer.data(count=2, txn=False)
    partial = writer.log.append(data_batch(seq=13, count=2), now=NOW)
    old = writer.log.append(data_batch(seq=0, count=2), now=NOW)
    for result in (partial, old):
        assert result.kafka_error is KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert (result.base_offset, result.log_append_time, result.log_start_offset) == (-1, -1, 0)


def test_row_062_a_follower_appends_duplicate_sequences() -> None:
    log = PartitionLog(now=NOW)
    records = data_batch(seq=0, at=0) + data_batch(seq=0, at=1) + data_batch(seq=0, at=2)
    assert log.append_as_follower(records, now=NOW).decision.verdict is Verdict.ACCEPTED
    assert log.log_end_offset == 3


def test_row_063_several_producers_and_a_duplicate_in_one_follower_append() -> None:
    log = PartitionLog(now=NOW)
    rows = [(1, 0), (2, 0), (3, 0), (4, 0), (1, 0)]
    records = b"".join(data_batch(pid=pid, seq=seq, at=at) for at, (pid, seq) in enumerate(rows))
    assert log.append_as_follower(records, now=NOW).decision.verdict is Verdict.ACCEPTED
    assert log.log_end_offset == 5
    assert sorted(log.manager.producers) == [1, 2, 3, 4]


def test_row_064_an_old_epoch_is_fenced_on_the_leader() -> None:
    log = PartitionLog(now=NOW)
    assert verdict_of(log, data_batch(epoch=1)) is Verdict.ACCEPTED
    result = log.append(data_batch(epoch=0), now=NOW)
    assert (result.kafka_error, result.base_offset) == (KafkaError.INVALID_PRODUCER_EPOCH, -1)


def test_a_duplicate_can_roll_a_segment() -> None:
    batch = data_batch(seq=0)
    log = PartitionLog(PartitionConfig(segment_bytes=len(batch) + 10), now=NOW)
    assert verdict_of(log, batch) is Verdict.ACCEPTED
    assert verdict_of(log, batch) is Verdict.DUPLICATE
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert list(log.snapshots) == [1]


def test_a_create_time_topic_keeps_the_producers_bytes_but_for_offset_and_leader_epoch() -> None:
    log = PartitionLog(leader_epoch=7, now=NOW)
    log.append(plain_batch(count=3), now=NOW)
    sent = data_batch(seq=0, count=2)
    result = log.append(sent, now=NOW)
    stored = log_bytes(log)[len(plain_batch(count=3)) :]
    header = check_batch(stored)
    assert (header.base_offset, header.partition_leader_epoch, result.base_offset) == (3, 7, 3)
    assert stored[16:] == sent[16:]
    assert result.log_append_time == -1


def test_a_new_leaders_epoch_begins_at_the_log_end_before_it_writes() -> None:
    log = PartitionLog(now=NOW)
    log.become_leader(0)
    log.append(plain_batch(count=3), now=NOW)
    log.become_leader(2)
    assert [(entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries] == [(0, 0), (2, 3)]


def test_a_log_append_time_topic_stamps_the_batch_and_answers_duplicates_with_that_time() -> None:
    config = PartitionConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    log = PartitionLog(config, now=NOW)
    accepted = log.append(data_batch(seq=0, ts=5), now=NOW)
    header = check_batch(log_bytes(log))
    assert (header.timestamp_type, header.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW)
    duplicate = log.append(data_batch(seq=0, ts=5), now=NOW + 50)
    assert (accepted.log_append_time, duplicate.log_append_time) == (NOW, NOW)


def test_a_segment_rolls_when_the_next_batch_would_not_fit() -> None:
    size = len(data_batch())
    log = PartitionLog(PartitionConfig(segment_bytes=2 * size), now=NOW)
    for sequence in range(5):
        verdict_of(log, data_batch(seq=sequence))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    assert [segment.size for segment in log.segments] == [2 * size, 2 * size, size]


def test_a_segment_rolls_when_its_first_batch_is_older_than_segment_ms() -> None:
    log = PartitionLog(PartitionConfig(segment_ms=1000), now=NOW)
    for sequence, timestamp in enumerate((T0, T0 + 1000, T0 + 1001)):
        verdict_of(log, data_batch(seq=sequence, ts=timestamp))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_rolls_when_an_offset_would_not_fit_into_its_index() -> None:
    log = PartitionLog(now=NOW)
    for offset in (0, 2**31 - 1, 2**31):
        log.append_as_follower(data_batch(at=offset), now=NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]


def test_a_request_larger_than_a_segment_is_refused_before_the_log_is_asked() -> None:
    log = PartitionLog(PartitionConfig(segment_bytes=50), now=NOW)
    result = log.append(data_batch(), now=NOW)
    assert (result.kafka_error, result.log_start_offset) == (KafkaError.RECORD_LIST_TOO_LARGE, -1)


def test_a_follower_stops_at_a_torn_batch_and_at_a_newer_leader() -> None:
    log = PartitionLog(leader_epoch=3, now=NOW)
    log.append_as_follower(data_batch(at=0, leader=3) + data_batch(at=1, leader=4), now=NOW)
    assert log.log_end_offset == 1
    log.append_as_follower(data_batch(at=1, leader=3) + data_batch(at=2, leader=3)[:-4], now=NOW)
    assert log.log_end_offset == 2
    log.append_as_follower(data_batch(at=2, leader=3)[:30], now=NOW)
    assert log.log_end_offset == 2


def test_a_follower_refuses_offsets_that_go_back() -> None:
    log = PartitionLog(now=NOW)
    log.append_as_follower(data_batch(at=0, count=3), now=NOW)
    result = log.append_as_follower(data_batch(at=2), now=NOW)
    assert (result.kafka_error, log.log_end_offset) == (KafkaError.CORRUPT_MESSAGE, 3)


def test_an_append_returns_the_decision_behind_the_reply() -> None:
    log = PartitionLog(now=NOW)
    assert log.append(data_batch(seq=4, count=2), now=NOW).decision == Decision(
        verdict=Verdict.ACCEPTED,
        base_offset=0,
        last_offset=1,
        expected_sequence=-1,
        found_sequence=4,
        expected_epoch=-1,
        found_epoch=0,
    )


def test_row_065_row_066_sequences_of_thinned_and_emptied_batches_count_in_full() -> None:
    log = PartitionLog(now=NOW)
    log.append_as_follower(compacted_batch(deltas=(1, 3), last_delta=3, at=23), now=NOW)
    assert log.manager.producers[1].last_sequence == 3
    log.append_as_follower(compacted_batch(pid=2, last_delta=1, at=27), now=NOW)
    assert log.manager.producers[2].last_sequence == 1
    assert log.log_end_offset == 29


def snapshot_every_append(count: int, *, first: int = 1) -> PartitionLog:
    """`count` batches of one producer, with a snapshot after each from the `first` on."""
    writer = Writer()
    for appended in range(1, count + 1):
        writer.data(txn=False)
        if appended >= first:
            writer.log.manager.take_snapshot()
    return writer.log


@pytest.mark.parametrize(
    ("target", "latest"),
    [
        pytest.param(2, 2, id="row-067 truncate to a snapshot"),
        pytest.param(1, 1, id="row-067 truncate below all snapshots"),
        pytest.param(0, None, id="row-067 truncate to nothing"),
    ],
)
def test_truncation_leaves_or_makes_a_snapshot_at_its_target(target: int, latest: int | None) -> None:
    log = snapshot_every_append(3, first=2)
    log.truncate_to(target, now=NOW)
    assert log.manager.latest_snapshot_offset == latest
    assert log.log_end_offset == target


def test_row_068_without_snapshots_truncation_reads_the_log_again() -> None:
    log = snapshot_every_append(2)
    log.manager.snapshots.clear()
    log.truncate_to(1, now=NOW)
    assert log.manager.producers[1].last_sequence == 0


def test_row_069_deleted_segments_take_their_snapshots_but_not_the_producers() -> None:
    writer = Writer()
    for pid in (1, 2, 3):
        writer.data(pid, txn=False)
        writer.log.roll(NOW)
    writer.replicate()
    assert sorted(writer.log.snapshots) == [1, 2, 3]
    writer.log.delete_records(2)
    writer.log.delete_old_segments()
    assert [segment.base_offset for segment in writer.log.segments] == [2, 3]
    assert sorted(writer.log.snapshots) == [2, 3]
    assert sorted(writer.log.manager.producers) == [1, 2, 3]


def test_row_072_a_roll_takes_a_snapshot_at_the_new_base() -> None:
    writer = Writer()
    writer.data(txn=False)
    writer.log.roll(NOW)
    assert list(writer.log.snapshots) == [1]
    assert [entry.last_sequence for entry in read_snapshot(writer.log.snapshots[1])] == [0]
    writer.log.roll(NOW)
    assert list(writer.log.snapshots) == [1], "an empty segment is replaced, nothing has moved"


def test_row_075_data_without_a_producer_moves_the_snapshot_offset() -> None:
    writer = Writer()
    writer.plain(4)
    writer.log.manager.take_snapshot()
    assert writer.log.manager.latest_snapshot_offset == 4


@pytest.mark.parametrize("target", [0, 2], ids=["row-094 fully", "row-094 below the first unstable offset"])
def test_truncation_below_the_first_unstable_offset_leaves_none(target: int) -> None:
    writer = Writer()
    writer.plain(2)
    writer.data(1, 3)
    writer.replicate()
    assert writer.log.last_stable_offset == 2
    if target:
        writer.log.truncate_to(target, now=NOW)
    else:
        writer.log.truncate_fully_and_start_at(0, now=NOW)
    assert writer.log.first_unstable_offset is None
    assert not writer.log.manager.producers
    assert writer.log.high_watermark == target


def test_row_095_active_producers_are_listed_with_minus_one_for_what_is_absent() -> None:
    writer = Writer()
    writer.data(1, 2)
    writer.data(2, txn=False)
    writer.commit(3, epoch=4, coord=7)
    listed = [active_producer(entry) for entry in writer.log.manager.producers.values()]
    assert listed == [
        ActiveProducer(
            producer_id=1, producer_epoch=0, last_sequence=1, last_timestamp=T0,
            coordinator_epoch=-1, current_txn_start_offset=0,
        ),
        ActiveProducer(
            producer_id=2, producer_epoch=0, last_sequence=0, last_timestamp=T0,
            coordinator_epoch=-1, current_txn_start_offset=-1,
        ),
        ActiveProducer(
            producer_id=3, producer_epoch=4, last_sequence=-1, last_timestamp=T0,
            coordinator_epoch=7, current_txn_start_offset=-1,
        ),
    ]  # fmt: skip


def test_truncation_cuts_at_the_batch_and_drops_later_segments_snapshots_and_index_entries() -> None:
    writer = Writer()
    writer.data(1, 3)
    writer.abort(1)
    writer.log.roll(NOW)
    writer.data(1, 2)
    writer.abort(1)
    writer.replicate()
    writer.log.truncate_to(1, now=NOW)
    assert [segment.base_offset for segment in writer.log.segments] == [0]
    assert log_bytes(writer.log) == b""
    assert (writer.log.aborted, writer.log.log_end_offset, writer.log.high_watermark) == ((), 1, 1)
    assert read_snapshot(writer.log.snapshots[1]) == ()


def test_delete_records_goes_no_further_than_the_high_watermark() -> None:
    writer = Writer()
    writer.plain(3)
    with pytest.raises(ValueError, match="high watermark"):
        writer.log.delete_records(1)
    writer.replicate()
    writer.log.delete_records(-1)
    assert (writer.log.log_start_offset, writer.log.last_stable_offset) == (3, 3)


def test_a_followers_append_of_more_offsets_than_a_segment_can_name_fails_and_writes_nothing() -> None:
    log = PartitionLog(now=NOW)
    first, far = data_batch(seq=0, at=0), data_batch(seq=1, at=2**31)
    result = log.append_as_follower(first + far, now=NOW)
    assert (result.decision.verdict, result.kafka_error) == (
        Verdict.CORRUPT,
        KafkaError.UNKNOWN_SERVER_ERROR,
    )
    assert (log.log_end_offset, log_bytes(log), log.manager.producers) == (0, b"", {})
    assert log.append_as_follower(first, now=NOW).decision.verdict is Verdict.ACCEPTED
    assert log.append_as_follower(far, now=NOW).decision.verdict is Verdict.ACCEPTED
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]
    assert log.files()


def test_a_follower_does_not_look_into_batches_of_a_newer_leader_epoch() -> None:
    ours, newer = data_batch(seq=0, at=0), data_batch(seq=1, at=1)
    newer = assign_offset(newer, base_offset=1, partition_leader_epoch=3)
    damaged = newer[:-1] + bytes((newer[-1] ^ 1,))
    log = PartitionLog(now=NOW, leader_epoch=2)
    assert log.append_as_follower(ours + damaged, now=NOW).decision.verdict is Verdict.ACCEPTED
    assert log.log_end_offset == 1
    log.leader_epoch = 3
    assert log.append_as_follower(damaged, now=NOW).kafka_error is KafkaError.CORRUPT_MESSAGE


def test_truncation_remembers_the_largest_timestamp_that_is_left() -> None:
    log = PartitionLog(now=NOW)
    for sequence, timestamp in enumerate((T0, T0 + 50, T0 + 20, T0 + 90)):
        log.append(data_batch(seq=sequence, ts=timestamp), now=NOW)
    log.truncate_to(3, now=NOW)
    log.close()
    assert [(entry.timestamp, entry.offset) for entry in log.segments[0].time_index] == [(T0 + 50, 1)]


def test_a_segment_that_truncation_empties_begins_at_the_time_of_it() -> None:
    log = PartitionLog(PartitionConfig(segment_ms=1000), now=NOW)
    log.append(data_batch(seq=0, ts=-1), now=NOW)
    log.truncate_to(0, now=NOW + 5000)
    assert log.segments[0].created == NOW + 5000
    log.append(data_batch(seq=0, ts=-1), now=NOW + 5000)
    log.append(data_batch(seq=1, ts=-1), now=NOW + 5001)
    assert len(log.segments) == 1
