"""What a read_committed consumer gets (facts §4, §9 rows 163-167)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.control_record import ControlType, read_first_control_type
from spark_jobs.kafka.log.read_committed import (
    ConsumerFilter,
    first_unstable_offset,
    last_stable_offset,
    next_position,
    records_from,
    visibility,
    visible_batches,
)
from spark_jobs.kafka.log.segment import read_batch_records, scan
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import fold
from spark_jobs.sample.broker.log_segment import build_aborted_index
from tests.kafka.broker_batches import abort_batch, commit_batch, compacted_batch, data_batch, plain_batch
from tests.kafka.txn_logs import STEPS, log_batches, write_log

ANY = TopicPartition("orders", 0)


def consume(
    *batches: bytes, aborted: tuple[tuple[int, int], ...] = (), position: int = 0
) -> tuple[list[int], int]:
    """Offsets that a consumer returns from one response, and where it continues."""
    data, taken = b"".join(batches), list[int]()
    judge = ConsumerFilter(aborted)
    for batch in scan(data):
        raw = data[batch.position : batch.end]
        control_type = read_first_control_type(raw) if batch.header.is_control else None
        if judge.accepts(batch.header, control_type):
            taken += [r.offset for r in records_from(read_batch_records(data, batch), position)]
        position = next_position(batch.header)
    return taken, position


ABORTED = (
    data_batch(pid=1, count=2, txn=True, at=0),
    data_batch(pid=1, seq=2, count=2, txn=True, at=2),
    abort_batch(pid=1, at=4),
)


def test_row_163_aborted_records_are_not_returned() -> None:
    assert consume(*ABORTED, aborted=((1, 0),)) == ([], 5)


def test_row_163_a_read_uncommitted_consumer_has_no_list_and_gets_them_all() -> None:
    assert consume(*ABORTED) == ([0, 1, 2, 3], 5)


def test_row_164_committed_records_are_returned() -> None:
    assert consume(data_batch(count=2, txn=True), commit_batch(at=2)) == ([0, 1], 3)


def test_row_165_a_compacted_log_without_the_first_aborts_marker() -> None:
    log = (
        data_batch(pid=3, count=2, txn=True, at=3),
        data_batch(pid=2, count=3, txn=True, at=15),
        data_batch(pid=1, count=2, txn=True, at=22),
        abort_batch(pid=2, at=28),
        data_batch(pid=3, seq=2, count=3, txn=True, at=30),
        commit_batch(pid=3, at=35),
        data_batch(pid=1, seq=2, count=2, txn=True, at=39),
    )
    assert consume(*log, aborted=((2, 6), (1, 0))) == ([3, 4, 30, 31, 32], 41)


def test_an_aborted_transaction_listed_from_inside_a_batch_hides_the_whole_batch() -> None:
    log = (data_batch(count=3, txn=True, at=0), abort_batch(at=3))
    assert consume(*log, aborted=((1, 1),)) == ([], 4)


def test_row_166_only_the_marker_of_an_aborted_transaction_is_left() -> None:
    log = (abort_batch(at=5), data_batch(count=3, txn=True, at=6), commit_batch(at=9))
    assert consume(*log, aborted=((1, 0),)) == ([6, 7, 8], 10)


def test_row_166_a_repeated_abort_hides_nothing_that_was_committed() -> None:
    log = (
        data_batch(count=1, txn=True, at=0),
        abort_batch(at=1),
        abort_batch(at=2),
        data_batch(seq=1, count=2, txn=True, at=3),
        commit_batch(at=5),
    )
    assert consume(*log, aborted=((1, 0),)) == ([3, 4], 6)


def test_row_167_the_position_passes_over_what_compaction_removed_from_a_batchs_end() -> None:
    assert consume(compacted_batch(deltas=(0, 1, 2), last_delta=3)) == ([0, 1, 2], 4)


def test_row_167_the_position_passes_over_an_empty_batch() -> None:
    assert consume(compacted_batch(last_delta=17, at=37)) == ([], 55)


def test_a_second_aborted_transaction_of_the_same_producer_is_hidden_too() -> None:
    log = (*ABORTED, data_batch(pid=1, seq=4, txn=True, at=5), plain_batch(at=6), abort_batch(pid=1, at=7))
    assert consume(*log, aborted=((1, 5), (1, 0))) == ([6], 8)


def test_what_an_aborted_producer_writes_outside_transactions_is_returned() -> None:
    assert consume(data_batch(pid=1), aborted=((1, 0),)) == ([0], 1)


def test_records_before_the_position_are_not_returned_again() -> None:
    assert consume(plain_batch(count=4), position=2) == ([2, 3], 4)


def test_an_unknown_control_type_is_skipped_and_ends_nothing() -> None:
    judge = ConsumerFilter([(1, 0)])
    (data, _), (marker, _) = log_batches(data_batch(txn=True), abort_batch(at=1))
    assert not judge.accepts(data, None)
    assert not judge.accepts(marker, ControlType.UNKNOWN)
    assert not judge.accepts(data, None), "the transaction is still aborted"


@pytest.mark.parametrize(
    ("undecided", "unreplicated", "log_start", "expected"),
    [
        pytest.param((), (), 0, None, id="nothing is open"),
        pytest.param((16, 8), (), 0, 8, id="the oldest open transaction"),
        pytest.param((16,), (8,), 0, 8, id="decided, but its marker is not replicated"),
        pytest.param((2,), (), 5, 5, id="its beginning was deleted"),
    ],
)
def test_the_first_unstable_offset(
    undecided: tuple[int, ...], unreplicated: tuple[int, ...], log_start: int, expected: int | None
) -> None:
    found = first_unstable_offset(undecided=undecided, unreplicated=unreplicated, log_start_offset=log_start)
    assert found == expected


@pytest.mark.parametrize(
    ("unstable", "expected"),
    [
        pytest.param(None, 30, id="none"),
        pytest.param(8, 8, id="below"),
        pytest.param(30, 30, id="at the top"),
        pytest.param(40, 30, id="above it"),
    ],
)
def test_the_last_stable_offset_is_bounded_by_the_high_watermark(unstable: int | None, expected: int) -> None:
    assert last_stable_offset(first_unstable=unstable, high_watermark=30) == expected


def test_a_marker_beyond_the_high_watermark_keeps_its_transaction_unstable() -> None:
    log = log_batches(*write_log([("data", 1), ("plain", 1), ("commit", 1)]))
    closed, _ = fold(log, ANY)
    stable = [visibility(closed, undecided=(), high_watermark=hw).last_stable_offset for hw in (3, 4)]
    assert stable == [0, 4]


@given(steps=STEPS, start=st.integers(0, 20))
def test_markers_alone_show_what_the_consumers_filter_shows(steps: list[tuple[str, int]], start: int) -> None:
    raw = write_log(steps)
    log = log_batches(*raw)
    end = log[-1][0].last_offset + 1 if log else 0
    start = min(start, end)
    closed, still_open = fold(log, ANY)
    undecided = [txn.first_offset for txn in still_open.values()]
    seen = visibility(closed, undecided=undecided, high_watermark=end, log_start_offset=start)
    pieces = list(zip(raw, log, strict=True))
    below = [batch for batch, (header, _) in pieces if start <= header.last_offset < seen.last_stable_offset]
    aborted = tuple((entry.producer_id, entry.first_offset) for entry in build_aborted_index(log))
    returned, _ = consume(*below, aborted=aborted, position=start)
    visible = set(visible_batches(log, seen))
    shown = [consume(batch, position=start)[0] for batch, (header, _) in pieces if header in visible]
    assert returned == [offset for offsets in shown for offset in offsets]
