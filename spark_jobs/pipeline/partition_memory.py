"""A chunk of index rows, its verdicts, and the partition state that they are judged with."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kafka.producers.verdict import VERDICTS, Rules, Verdict
from spark_jobs.kernels.admission import (
    BatchColumns,
    DecisionColumns,
    allocate_decisions,
    batch_columns,
    fold,
)
from spark_jobs.kernels.partition_transactions import TransactionTable
from spark_jobs.kernels.producers import ProducerTable, Rows
from spark_jobs.lake.index_rows import batches_of
from spark_jobs.lake.states import PartitionState

OPEN = -1
"""In a chunk's preset verdicts: not decided yet."""
NONE = -1
ACCEPTED = VERDICTS.index(Verdict.ACCEPTED)
CORRUPT = VERDICTS.index(Verdict.CORRUPT)
INVALID_RECORD = VERDICTS.index(Verdict.INVALID_RECORD)
OVERLAP = VERDICTS.index(Verdict.OVERLAP)
DIVERGENT = VERDICTS.index(Verdict.DIVERGENT)
BEHIND_GAP = VERDICTS.index(Verdict.BEHIND_GAP)
LATE = VERDICTS.index(Verdict.LATE)

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexChunk:
    """Rows of the contract `index`, which copy each is of, and the verdicts that are already known.

    `gap`: first and last of the missing offsets that hold the rows after them.
    """

    rows: pa.RecordBatch
    copy: npt.NDArray[np.int32]
    preset: Codes
    gap: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A chunk with a decision for every row; `outside_transaction` are plain batches inside open
    transactions.

    `gap` is the chunk's.
    """

    rows: pa.RecordBatch
    copy: npt.NDArray[np.int32]
    decisions: DecisionColumns
    outside_transaction: npt.NDArray[np.bool_]
    gap: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        return self.rows.num_rows

    def part(self, start: int, stop: int) -> "Judged":
        """Rows `start` to `stop` without a copy."""
        return Judged(
            rows=self.rows.slice(start, stop - start),
            copy=self.copy[start:stop],
            decisions=select_decisions(self.decisions, slice(start, stop)),
            outside_transaction=self.outside_transaction[start:stop],
            gap=self.gap,
        )

    @property
    def is_accepted(self) -> npt.NDArray[np.bool_]:
        accepted: npt.NDArray[np.bool_] = self.decisions.verdict == ACCEPTED
        return accepted


class PartitionMemory:
    """The state of a partition while its batches are judged: producers, and open transactions."""

    def __init__(self, state: PartitionState, rules: Rules) -> None:
        self.producers = ProducerTable(state.producers, end_offset=state.end_offset)
        self.transactions = TransactionTable(state.open_transactions)
        self.rules = rules

    def judge(self, chunk: IndexChunk, gaps: Rows | None = None) -> tuple[Judged, Rows]:
        """Decisions for the chunk, and the transactions that it closed; `gaps` may hide markers."""
        is_open = chunk.preset == OPEN
        batches = batches_of(chunk.rows)
        judged = batches if is_open.all() else select_batches(batches, is_open)
        found = fold(judged, self.producers, rules=self.rules)
        tracked = self.transactions.track(judged, found, gaps)
        if judged is batches:
            decisions, outside_transaction = found, tracked.outside_transaction
        else:
            decisions = scatter(found, is_open, chunk.preset, batches.base_offset)
            outside_transaction = np.zeros(chunk.rows.num_rows, dtype=np.bool_)
            outside_transaction[is_open] = tracked.outside_transaction
        decided = Judged(
            rows=chunk.rows,
            copy=chunk.copy,
            decisions=decisions,
            outside_transaction=outside_transaction,
            gap=chunk.gap,
        )
        return decided, tracked.closed


def select_batches(batches: BatchColumns, wanted: npt.NDArray[np.bool_]) -> BatchColumns:
    """The batches that are `wanted`."""
    return batch_columns(column[wanted] for column in batches)


def select_decisions(decisions: DecisionColumns, wanted: slice | npt.NDArray[np.int64]) -> DecisionColumns:
    """Decisions in the order of `wanted`."""
    return DecisionColumns._make(getattr(decisions, name)[wanted] for name in DecisionColumns._fields)


def scatter(
    found: DecisionColumns,
    places: npt.NDArray[np.bool_],
    preset: Codes,
    base_offset: npt.NDArray[np.int64],
) -> DecisionColumns:
    """Decisions in their places among rows that were decided before, some of which have an offset."""
    decisions = allocate_decisions(len(preset))
    for name in DecisionColumns._fields:
        column = getattr(decisions, name)
        column[:] = NONE
        column[places] = getattr(found, name)
    decisions.verdict[~places] = preset[~places]
    has_offset = (preset == OVERLAP) | (preset == BEHIND_GAP) | (preset == LATE)
    decisions.base_offset[has_offset] = base_offset[has_offset]
    return decisions
