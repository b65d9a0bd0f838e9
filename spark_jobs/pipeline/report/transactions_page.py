"""Undecided and longest transactions, and producers with batches that were not simply accepted."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.flow import STEPS, Step
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.lake.chain import Chain
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.pipeline.report.run_tables import ProducerCounts, Producers, Row, RunTables
from spark_jobs.tables.resolve import TRANSACTIONS

UNDECIDED = frozenset(outcome.value for outcome in Outcome if not outcome.is_decided)
MOST_UNDECIDED = 500
MOST_LONGEST = 50
SHOWN = (
    "transactional_id", "producer_id", "producer_epoch", "outcome", "sentence", "state", "start_timestamp",
    "end_timestamp", "transaction_timeout_ms", "partitions_found", "first_offsets", "markers_missing",
    "batches", "records", "age_ms", "held_back", "abort_commands",
    "coordinator_time", "data_time",
)  # fmt: skip
MOST_PRODUCERS = 500
MOST_PARTITIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A row of the table `transactions`, and the run that wrote it."""

    run_id: str
    row: dict[str, Any]

    @property
    def partitions(self) -> str:
        """Where it has data, and from which offset on."""
        found = zip(self.row["partitions_found"], self.row["first_offsets"], strict=True)
        return ", ".join(f"{partition} from {offset}" for partition, offset in found)


def newest_resolved(chain: Chain) -> str | None:
    """The newest final run that went as far as `resolve`."""
    resolved = (
        entry.run_id
        for entry in reversed(chain.current.values())
        if STEPS.index(entry.last_step) >= STEPS.index(Step.RESOLVE)
    )
    return next(resolved, None)


def list_transactions(lake: ObjectStore, run_id: str, *, decided: bool) -> Iterator[ListedTransaction]:
    """The undecided transactions; with `decided` also those that the run decided."""
    for rows in RunTables(lake, run_id).parts(Step.RESOLVE, TRANSACTIONS):
        for row in rows.to_pylist():
            if decided or row["outcome"] in UNDECIDED:
                yield ListedTransaction(run_id=run_id, row=row)


@dataclass(slots=True)
class TransactionView:
    """The selection so far; memory is bounded for any number of transactions."""

    outcomes: Counter[str] = field(default_factory=Counter)
    undecided: list[Row] = field(default_factory=list)
    undecided_count: int = 0
    longest: list[Row] = field(default_factory=list)
    owners: dict[int, str] = field(default_factory=dict)

    def add(self, rows: pa.RecordBatch, troubled: set[int]) -> None:
        """Adds transactions; for `troubled` producers the transactional id is kept, too."""
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
    for rows in tables.parts(Step.RESOLVE, TRANSACTIONS, list(SHOWN)):
        view.add(_with_newer(rows), troubled)
    return view


def _with_newer(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The shown columns; null where a run of an earlier version did not write them."""
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


def producer_view(producers: Producers, owners: Mapping[int, str]) -> dict[str, Any]:
    """The page's data; `owners` are transactional ids by producer id, where known."""
    totals: Counter[str] = Counter()
    for each in producers.values():
        totals.update(each.verdicts)
    worst = nlargest(
        MOST_PRODUCERS, producers.values(), key=lambda each: (each.verdicts.total(), -each.producer_id)
    )
    return {
        "producers": [_row(each, owners) for each in worst],
        "count": len(producers),
        "totals": dict(totals),
    }


def _row(producer: ProducerCounts, owners: Mapping[int, str]) -> dict[str, Any]:
    return {
        "id": producer.producer_id,
        "transactional_id": owners.get(producer.producer_id),
        "verdicts": dict(producer.verdicts),
        "accepted": producer.accepted,
        "epochs": sorted(producer.epochs.items()),
        "fenced_by": sorted(producer.fenced_by),
        "farthest": producer.farthest,
        "partitions": producer.partitions.most_common(MOST_PARTITIONS),
        "partition_count": len(producer.partitions),
    }
