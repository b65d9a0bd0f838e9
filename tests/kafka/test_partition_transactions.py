"""Transactions as one partition saw them (facts §2.8)."""

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction, WrittenMarker, fold
from tests.cases.batch_rows import T0
from tests.kafka.broker_batches import abort_batch, commit_batch, compacted_batch, data_batch, plain_batch
from tests.kafka.txn_logs import STEPS, log_batches, write_log

ORDERS = TopicPartition("orders", 0)


def test_a_transaction_runs_from_its_first_batch_to_its_marker() -> None:
    log = log_batches(
        data_batch(pid=4, epoch=2, count=3, txn=True, at=0, ts=T0),
        plain_batch(at=3),
        data_batch(pid=4, epoch=2, seq=3, txn=True, at=4, ts=T0 + 9),
        commit_batch(pid=4, epoch=3, coord=8, at=5, ts=T0 + 10),
    )
    closed, still_open = fold(log, ORDERS)
    assert closed == (
        PartitionTransaction(
            topic_partition=ORDERS,
            producer_id=4,
            producer_epoch=2,
            first_offset=0,
            last_offset=4,
            batch_count=2,
            first_timestamp=T0,
            last_timestamp=T0 + 9,
            marker=WrittenMarker(
                offset=5, producer_epoch=3, coordinator_epoch=8, timestamp=T0 + 10, is_commit=True
            ),
        ),
    )
    assert still_open == {}


def test_a_marker_that_closes_nothing_is_kept_without_data() -> None:
    (lone,), _ = fold(log_batches(abort_batch(pid=4, epoch=3, at=5)), ORDERS)
    assert (lone.batch_count, lone.first_offset, lone.producer_epoch) == (0, 5, 3)


def test_what_no_marker_closed_stays_open() -> None:
    _, still_open = fold(log_batches(data_batch(pid=4, txn=True, at=7)), ORDERS)
    assert [(txn.producer_id, txn.first_offset, txn.marker) for txn in still_open.values()] == [(4, 7, None)]


def test_an_epoch_bump_inside_a_transaction_does_not_split_it() -> None:
    log = log_batches(data_batch(epoch=0, txn=True, at=0), data_batch(epoch=1, txn=True, at=1))
    _, still_open = fold(log, ORDERS)
    assert [(txn.first_offset, txn.producer_epoch) for txn in still_open.values()] == [(0, 1)]


def test_an_emptied_batch_still_opens_its_transaction() -> None:
    _, still_open = fold(log_batches(compacted_batch(last_delta=3, txn=True)), ORDERS)
    assert [(txn.first_offset, txn.last_offset) for txn in still_open.values()] == [(0, 3)]


def test_what_is_not_transactional_opens_nothing() -> None:
    assert fold(log_batches(data_batch(), plain_batch(at=1)), ORDERS) == ((), {})


@given(steps=STEPS, cut=st.integers(0, 40))
def test_folding_in_two_pieces_is_folding_at_once(steps: list[tuple[str, int]], cut: int) -> None:
    log = log_batches(*write_log(steps))
    first, inherited = fold(log[:cut], ORDERS)
    before = dict(inherited)
    second, still_open = fold(log[cut:], ORDERS, open_before=inherited)
    assert ((*first, *second), still_open) == fold(log, ORDERS)
    assert inherited == before
