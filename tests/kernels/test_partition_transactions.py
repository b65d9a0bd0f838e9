"""Transactions tracked by the kernel are those of the pure twin, however the chunks are cut."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.log.replica_copies import Gap, merge_copies
from spark_jobs.kafka.producers import admission
from spark_jobs.kafka.producers.producer_state import NO_OFFSET, AppendOrigin, ProducerStates
from spark_jobs.kafka.producers.verdict import BatchRow, Rules, Verdict
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions import partition_transactions
from spark_jobs.kafka.transactions.partition_transactions import (
    LogBatch,
    PartitionTransaction,
    SpannedGap,
    WrittenMarker,
)
from spark_jobs.kernels.admission import ACCEPTED, fold
from spark_jobs.kernels.copies import GAP
from spark_jobs.kernels.partition_transactions import NO_MARKER, TransactionTable
from spark_jobs.kernels.producers import ProducerTable, Rows
from tests.cases.batch_rows import abort, commit, data
from tests.kernels.histories import columns_of, histories

PARTITION = TopicPartition("orders", 0)
LENIENT = Rules(origin=AppendOrigin.REPLICATION, enforce_open_transaction=False)


def _accepted(rows: Sequence[BatchRow], rules: Rules) -> list[LogBatch]:
    """The log that `rows` become."""
    decisions, _ = admission.fold(ProducerStates(), rows, rules=rules)
    return [
        (replace(row.header, base_offset=decision.base_offset), row.marker)
        for row, decision in zip(rows, decisions, strict=True)
        if decision.verdict is Verdict.ACCEPTED
    ]


def _value(row: Any) -> PartitionTransaction:
    """A row of the kernel as the pure twin's value."""
    marker = WrittenMarker(
        offset=int(row["marker_offset"]),
        producer_epoch=int(row["marker_epoch"]),
        coordinator_epoch=int(row["coordinator_epoch"]),
        timestamp=int(row["marker_timestamp"]),
        is_commit=bool(row["marker_type"] == 1),
    )
    gap = SpannedGap(first_offset=int(row["gap_first_offset"]), last_offset=int(row["gap_last_offset"]))
    return PartitionTransaction(
        topic_partition=PARTITION,
        producer_id=int(row["producer_id"]),
        producer_epoch=int(row["producer_epoch"]),
        first_offset=int(row["first_offset"]),
        last_offset=int(row["last_offset"]),
        batch_count=int(row["batches"]),
        first_timestamp=int(row["first_timestamp"]),
        last_timestamp=int(row["last_timestamp"]),
        marker=None if row["marker_type"] == NO_MARKER else marker,
        first_epoch=None if row["first_epoch"] == row["producer_epoch"] else int(row["first_epoch"]),
        gap=None if row["gap_first_offset"] == NO_OFFSET else gap,
    )


def _gaps(log: Sequence[LogBatch]) -> tuple[Gap, ...]:
    """Every hole of the log counts."""
    headers = [header for header, _ in log if isinstance(header, RecordBatchHeader)]
    return merge_copies(headers).gaps


def _rows_of(gaps: Sequence[Gap], offsets: Sequence[int]) -> Rows:
    """Those of `gaps` that end before one of the batches at `offsets`, as rows."""
    chosen = [(0, gap.first_offset, gap.last_offset) for gap in gaps if gap.last_offset + 1 in offsets]
    return np.array(chosen, dtype=GAP)


@given(
    st.tuples(histories(), st.just(Rules())) | st.tuples(histories(with_offsets=True), st.just(LENIENT)),
    st.lists(st.integers(0, 40), max_size=3),
)
def test_transactions_are_those_of_the_pure_twin(
    judged: tuple[list[BatchRow], Rules], cuts: list[int]
) -> None:
    rows, rules = judged
    log = _accepted(rows, rules)
    gaps = _gaps(log) if rules is LENIENT else ()
    expected, expected_open = partition_transactions.fold(log, PARTITION, gaps=gaps)
    producers, table = ProducerTable(), TransactionTable()
    closed: list[PartitionTransaction] = []
    for start, end in pairwise([0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]):
        batches = columns_of(rows[start:end])
        decisions = fold(batches, producers, rules=rules)
        accepted = decisions.base_offset[decisions.verdict == ACCEPTED].tolist()
        tracked = table.track(batches, decisions, _rows_of(gaps, accepted))
        closed += map(_value, tracked.closed)
        table = TransactionTable(table.open_transactions())
    assert tuple(closed) == expected
    left = [_value(row) for row in table.open_transactions()]
    assert left == sorted(expected_open.values(), key=lambda txn: txn.first_offset)


def test_a_plain_batch_inside_its_producers_open_transaction_is_outside_its_transaction() -> None:
    rows = [data(seq=0, txn=True, at=0), data(seq=1, at=1), abort(at=2), data(seq=2, at=3)]
    batches, table = columns_of(rows), TransactionTable()
    tracked = table.track(batches, fold(batches, ProducerTable(), rules=LENIENT))
    assert tracked.outside_transaction.tolist() == [False, True, False, False]


def test_records_and_epochs_of_a_transaction_that_a_newer_epoch_continued() -> None:
    rows = [data(seq=0, count=3, txn=True), data(epoch=1, seq=0, count=2, txn=True), commit(epoch=1)]
    batches = columns_of(rows)
    (row,) = TransactionTable().track(batches, fold(batches, ProducerTable(), rules=Rules())).closed
    assert (row["records"], row["first_epoch"], row["producer_epoch"]) == (5, 0, 1)


def test_a_table_grows_with_its_producers() -> None:
    rows = [data(pid=number, txn=True) for number in range(1000)]
    batches, table = columns_of(rows), TransactionTable()
    table.track(batches, fold(batches, ProducerTable(), rules=Rules()))
    assert table.open_transactions()["producer_id"].tolist() == list(range(1000))
