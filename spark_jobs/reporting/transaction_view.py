"""Transactions of a run worth attention: undecided ones, and the longest."""

from collections import Counter
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.flow import Step
from spark_jobs.reporting.run_tables import RunTables
from spark_jobs.reporting.transaction_listing import UNDECIDED
from spark_jobs.storage.parquet_file import iter_rows

MOST_UNDECIDED = 500
MOST_LONGEST = 50
TRANSACTIONS = "transactions"
SHOWN = (
    "transactional_id", "producer_id", "producer_epoch", "outcome", "sentence", "state", "start_timestamp",
    "end_timestamp", "transaction_timeout_ms", "partitions_found", "first_offsets", "markers_missing",
    "batches", "records", "age_ms", "held_back", "abort_commands",
    "coordinator_time", "data_time",
)  # fmt: skip

Row = dict[str, Any]


@dataclass(slots=True)
class TransactionView:
    """The selection so far; memory is bounded for any number of transactions."""

    outcomes: Counter[str] = field(default_factory=Counter)
    undecided: list[Row] = field(default_factory=list)
    undecided_count: int = 0
    longest: list[Row] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)

    def add(self, rows: pa.RecordBatch, troubled: set[int]) -> None:
        """Look at more transactions; of `troubled` producers the owner is noted, too."""
        self.outcomes.update(map(str, rows.column("outcome").to_pylist()))
        is_open = pc.is_in(rows.column("outcome"), value_set=pa.array(sorted(UNDECIDED)))
        found = rows.filter(is_open)
        self.undecided_count += found.num_rows
        self.undecided = nlargest(MOST_UNDECIDED, [*self.undecided, *found.to_pylist()], key=_weight)
        self.longest = nlargest(MOST_LONGEST, [*self.longest, *_longest(rows)], key=_duration)
        self._note_owners(rows, troubled)

    def shown(self) -> Row:
        return {
            "outcomes": dict(self.outcomes),
            "undecided": [_shown(row) for row in self.undecided],
            "undecided_count": self.undecided_count,
            "longest": [_shown(row) for row in self.longest],
        }

    def _note_owners(self, rows: pa.RecordBatch, troubled: set[int]) -> None:
        wanted = pc.is_in(rows.column("producer_id"), value_set=pa.array(sorted(troubled), pa.int64()))
        found = rows.select(["producer_id", "transactional_id"]).filter(wanted)
        for row in found.to_pylist():
            if row["transactional_id"] is not None:
                self.owners[row["producer_id"]] = row["transactional_id"]


def transaction_view(tables: RunTables, troubled: set[int]) -> TransactionView:
    """The transactions of the run; none if it did not get to `resolve`."""
    view = TransactionView()
    for found in tables.lake.list(tables.key(Step.RESOLVE, TRANSACTIONS)):
        for rows in iter_rows(tables.lake, found.key, columns=list(SHOWN)):
            view.add(_with_newer(rows), troubled)
    return view


def _with_newer(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that are shown; null those that runs of earlier versions did not write."""
    columns = [
        rows.column(name) if name in rows.schema.names else pa.nulls(rows.num_rows, pa.int64())
        for name in SHOWN
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(SHOWN))


def _longest(rows: pa.RecordBatch) -> list[Row]:
    """The candidates of one part: decided transactions by the time from begin to end."""
    lasted = (
        pc.subtract(rows.column("end_timestamp"), rows.column("start_timestamp")).fill_null(-1).to_numpy()
    )
    places = np.argsort(-lasted, kind="stable")[:MOST_LONGEST]
    chosen: list[Row] = rows.take(pa.array(places[lasted[places] >= 0], pa.int64())).to_pylist()
    return chosen


def _weight(row: Row) -> tuple[int, int]:
    return row["held_back"], row["age_ms"] or 0


def _duration(row: Row) -> int:
    return int(row["end_timestamp"] - row["start_timestamp"])


def _shown(row: Row) -> Row:
    return {name: row[name] for name in SHOWN}
