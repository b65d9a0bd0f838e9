"""Tracks the transactions of one partition, from their first batch to their marker (facts §2.8).

The twin of `kafka.transactions.partition_transactions`, on the columns of the admission fold.
A producer has at most one transaction open on a partition, so the table keeps one row per producer.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.record_batch import (
    CONTROL_FLAG,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
)
from spark_jobs.kafka.producers.producer_state import NO_COORDINATOR_EPOCH, NO_OFFSET
from spark_jobs.kernels.admission import ACCEPTED, BatchColumns, DecisionColumns
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.producers import NO_ROW, Rows, Slots, find_row, insert_slot

NO_MARKER = -1
TRANSACTION = np.dtype(
    [
        ("producer_id", np.int64),
        ("first_offset", np.int64),
        ("last_offset", np.int64),
        ("batches", np.int64),
        ("records", np.int64),
        ("first_timestamp", np.int64),
        ("last_timestamp", np.int64),
        ("marker_offset", np.int64),
        ("marker_timestamp", np.int64),
        ("gap_first_offset", np.int64),
        ("gap_last_offset", np.int64),
        ("coordinator_epoch", np.int32),
        ("producer_epoch", np.int16),
        ("first_epoch", np.int16),
        ("marker_epoch", np.int16),
        ("marker_type", np.int8),
        ("began_before", np.int8),
    ],
    align=True,
)
"""One transaction; `marker_type` is 1 for commit, 0 for abort, `NO_MARKER` while it is open.

Without data (`batches` 0) it is a marker that closed nothing. `producer_epoch` is the newest of its data. The
gap is the first and the last offset that is missing inside, `NO_OFFSET` without any.
"""
_FIRST_ROWS = 64
_ABORT, _COMMIT = int(ControlType.ABORT), int(ControlType.COMMIT)


class Tracked(NamedTuple):
    """The result of a chunk: `closed` transactions in the order of their markers, and flags per batch.

    `outside_transaction` is true for a plain batch inside its producer's open transaction (facts §8.35).
    """

    closed: Rows
    outside_transaction: npt.NDArray[np.bool_]


@helper
def _begin(row: Any, batches: BatchColumns, index: int, first_offset: int) -> None:
    row.producer_id = batches.producer_id[index]
    row.first_offset = first_offset
    row.last_offset = NO_OFFSET
    row.batches = 0
    row.records = 0
    row.first_timestamp = batches.max_timestamp[index]
    row.last_timestamp = batches.max_timestamp[index]
    row.producer_epoch = batches.producer_epoch[index]
    row.first_epoch = batches.producer_epoch[index]
    row.began_before = 0
    row.gap_first_offset = NO_OFFSET
    row.gap_last_offset = NO_OFFSET
    _prune_marker(row)


@helper
def _prune_marker(row: Any) -> None:
    row.marker_type = NO_MARKER
    row.marker_offset = NO_OFFSET
    row.marker_epoch = NO_PRODUCER_EPOCH
    row.coordinator_epoch = NO_COORDINATOR_EPOCH
    row.marker_timestamp = NO_TIMESTAMP


@helper
def _extend(row: Any, batches: BatchColumns, index: int, last_offset: int) -> None:
    timestamp = batches.max_timestamp[index]
    row.last_offset = last_offset
    row.batches += 1
    row.records += batches.record_count[index]
    row.first_timestamp = min(row.first_timestamp, timestamp)
    row.last_timestamp = max(row.last_timestamp, timestamp)
    row.producer_epoch = batches.producer_epoch[index]


@helper
def _close(row: Any, batches: BatchColumns, index: int, offset: int) -> None:
    row.marker_type = batches.control_type[index]
    row.marker_offset = offset
    row.marker_epoch = batches.producer_epoch[index]
    row.coordinator_epoch = batches.coordinator_epoch[index]
    row.marker_timestamp = batches.max_timestamp[index]


@kernel
def _track(
    batches: BatchColumns,
    decisions: DecisionColumns,
    start: int,
    rows: Rows,
    slots: Slots,
    count: int,
    closed: Rows,
    closed_count: int,
    outside_transaction: npt.NDArray[np.bool_],
) -> tuple[int, int, int]:
    """(batches tracked, rows, transactions closed); stops before a producer without a free row."""
    for index in range(start, batches.producer_id.size):
        producer_id, attributes = batches.producer_id[index], batches.attributes[index]
        if decisions.verdict[index] != ACCEPTED or producer_id <= NO_PRODUCER_ID:
            continue
        is_control = attributes & CONTROL_FLAG != 0
        is_marker = is_control and _ABORT <= batches.control_type[index] <= _COMMIT
        opens = not is_control and attributes & TRANSACTIONAL_FLAG != 0
        row = find_row(producer_id, slots)
        is_open = row != NO_ROW and rows[row].batches > 0
        if opens:
            if row == NO_ROW:
                if count == rows.size:
                    return index, count, closed_count
                row = count
                insert_slot(producer_id, row, slots)
                count += 1
            if not is_open:
                _begin(rows[row], batches, index, decisions.txn_first_offset[index])
            _extend(rows[row], batches, index, decisions.last_offset[index])
        elif is_marker:
            if is_open:
                closed[closed_count] = rows[row]
                rows[row].batches = 0
            else:
                _begin(closed[closed_count], batches, index, decisions.base_offset[index])
                closed[closed_count].last_offset = decisions.base_offset[index]
            _close(closed[closed_count], batches, index, decisions.base_offset[index])
            closed_count += 1
        elif is_open and not is_control:
            outside_transaction[index] = True
    return batches.producer_id.size, count, closed_count


@kernel
def _fill_slots(rows: Rows, count: int, slots: Slots) -> None:
    for row in range(count):
        insert_slot(rows[row].producer_id, row, slots)


def _span(rows: Rows, gaps: Rows) -> None:
    """Widens each transaction's gap by those of `gaps`, ascending, between its first batch and its end."""
    end = np.where(rows["marker_type"] == NO_MARKER, np.iinfo(np.int64).max, rows["marker_offset"])
    first = np.searchsorted(gaps["first_offset"], rows["first_offset"], side="right")
    last = np.searchsorted(gaps["last_offset"], end) - 1
    spans = np.flatnonzero((rows["batches"] > 0) & (first <= last))
    is_first = rows["gap_first_offset"][spans] == NO_OFFSET
    rows["gap_first_offset"][spans[is_first]] = gaps["first_offset"][first[spans[is_first]]]
    rows["gap_last_offset"][spans] = gaps["last_offset"][last[spans]]


class TransactionTable:
    """The open transactions of one partition; tracking changes it in place."""

    __slots__ = ("_count", "_rows", "_slots")

    def __init__(self, open_transactions: Rows | None = None) -> None:
        """`open_transactions` of dtype `TRANSACTION`, one per producer, are copied."""
        known = np.empty(0, dtype=TRANSACTION) if open_transactions is None else open_transactions
        self._count = len(known)
        self._rows = np.zeros(max(_FIRST_ROWS, len(known)), dtype=TRANSACTION)
        self._rows[: self._count] = known
        self._hash()

    def track(self, batches: BatchColumns, decisions: DecisionColumns, gaps: Rows | None = None) -> Tracked:
        """Tracks the transactions that these batches, with their decisions, opened, continued and closed.

        `gaps` have the columns `first_offset` and `last_offset`, and are before batches of this chunk.
        """
        is_control = (batches.attributes & CONTROL_FLAG) != 0
        closed, seen, found = np.zeros(int(is_control.sum()), dtype=TRANSACTION), 0, 0
        outside_transaction = np.zeros(batches.rows, dtype=np.bool_)
        while True:
            seen, self._count, found = _track(
                batches,
                decisions,
                seen,
                self._rows,
                self._slots,
                self._count,
                closed,
                found,
                outside_transaction,
            )
            if seen == batches.rows:
                if gaps is not None and len(gaps):
                    _span(closed[:found], gaps)
                    _span(self._rows[: self._count], gaps)
                return Tracked(closed=closed[:found], outside_transaction=outside_transaction)
            self._grow()

    def open_transactions(self) -> Rows:
        """A copy of the open transactions, by their first offset."""
        rows = self._rows[: self._count]
        found = rows[rows["batches"] > 0]
        return found[np.argsort(found["first_offset"])]

    def _grow(self) -> None:
        rows = np.zeros(2 * len(self._rows), dtype=TRANSACTION)
        rows[: self._count] = self._rows
        self._rows = rows
        self._hash()

    def _hash(self) -> None:
        size = 1 << (2 * len(self._rows) - 1).bit_length()
        self._slots = np.full((size, 2), NO_ROW, dtype=np.int64)
        _fill_slots(self._rows, self._count, self._slots)
