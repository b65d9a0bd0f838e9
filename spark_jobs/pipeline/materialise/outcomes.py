"""The outcomes of the transactions of one partition, by first offset, and what the run publishes of it."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.lake.errors import BrokenRun
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.pipeline.materialise.batch_rows import NONE, BatchRows
from spark_jobs.pipeline.materialise.job import PartitionPlan

COMMITTED, ABORTED = "committed", "aborted"
"""Outcomes that nothing can change any more."""


def _no_offsets() -> npt.NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


def _no_names() -> "pa.Array[Any]":
    return pa.array([], pa.string())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Transactions by ascending first offset on the partition; `transactional_id` is null where unknown."""

    first_offset: npt.NDArray[np.int64] = field(default_factory=_no_offsets)
    outcome: "pa.Array[Any]" = field(default_factory=_no_names)
    transactional_id: "pa.Array[Any]" = field(default_factory=_no_names)

    def are(self, outcome: str) -> npt.NDArray[np.bool_]:
        """Which transactions ended like that."""
        return np.asarray(self.outcome.to_numpy(zero_copy_only=False) == outcome, dtype=np.bool_)

    def index_of(self, txn_first_offset: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The transaction of each batch, `NONE` for a batch outside of any."""
        found = np.searchsorted(self.first_offset, txn_first_offset)
        known = found < self.first_offset.size
        known[known] = self.first_offset[found[known]] == txn_first_offset[known]
        missing = txn_first_offset[~known & (txn_first_offset != NONE)]
        if missing.size:
            raise BrokenRun(f"the transaction that began at offset {missing[0]} has no outcome")
        return np.where(txn_first_offset == NONE, NONE, found)


def names_of(names: "pa.Array[Any]", indices: npt.NDArray[np.int64]) -> "pa.Array[Any]":
    """The names at `indices`, null at `NONE`."""
    taken: pa.Int64Array = pa.array(indices, pa.int64(), mask=indices == NONE)
    return names.take(taken)


@dataclass(frozen=True, kw_only=True)
class View:
    """What a run publishes of one partition: committed records from `first_offset` to before `end_offset`.

    `end_offset` is where a batch ends. `late` are first offsets of transactions that an earlier run took
    for aborted: they are published whole, though they are before `first_offset`.
    """

    first_offset: int
    end_offset: int
    outcomes: Outcomes
    late: tuple[int, ...] = ()

    def first_offsets(self, rows: BatchRows) -> npt.NDArray[np.int64]:
        """For each batch the first offset that is published of it."""
        is_late = np.isin(rows.txn_first_offset, np.array(self.late, dtype=np.int64))
        return np.where(is_late, 0, self.first_offset)

    def shows(self, rows: BatchRows) -> npt.NDArray[np.bool_]:
        """Which batches hold records to publish."""
        in_range = (rows.last_offset >= self.first_offsets(rows)) & (
            rows.headers.base_offset < self.end_offset
        )
        chosen = rows.is_accepted & rows.is_data & in_range
        indices = self.outcomes.index_of(np.where(chosen, rows.txn_first_offset, NONE))
        committed: npt.NDArray[np.bool_] = self._is_committed[indices]
        return chosen & committed

    @cached_property
    def _is_committed(self) -> npt.NDArray[np.bool_]:
        """Of each transaction, and at `NONE`, the last place, of what needs none."""
        return np.append(self.outcomes.are(COMMITTED), True)


def view_of(lake: ObjectStore, plan: PartitionPlan) -> View:
    """What the run publishes of the partition."""
    outcomes = _read_outcomes(lake, plan.outcomes) if plan.outcomes else Outcomes()
    return View(first_offset=plan.first_offset, end_offset=plan.end_offset, outcomes=outcomes, late=plan.late)


def _read_outcomes(lake: ObjectStore, key: str) -> Outcomes:
    table = read_table(lake, key)
    return Outcomes(
        first_offset=np.asarray(table.column("first_offset")),
        outcome=table.column("outcome").combine_chunks(),
        transactional_id=table.column("transactional_id").combine_chunks(),
    )
