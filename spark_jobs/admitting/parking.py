"""A captured partition whose batches may be parked until a gap fills, also across runs.

Each batch has its verdict in the place where it was decided: one that waited is behind the batch that
filled its gap, so that accepted batches still ascend by offset. A marker closes what is open when it comes;
data of its transaction that still waits then belongs to a later one.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.admitting.judging import (
    OPEN,
    Chunk,
    Judged,
    PartitionMemory,
    scatter,
    select_batches,
    select_decisions,
)
from spark_jobs.kernels.decisions import BatchColumns, DecisionColumns, batch_columns
from spark_jobs.kernels.parking import PARKED, Freed, ParkedBatches
from spark_jobs.kernels.producers import Rows
from spark_jobs.protocol.decision import Rules
from spark_jobs.storage.index_rows import batches_of, concatenate, take
from spark_jobs.storage.inherited_rows import index_rows_of, inherited_of
from spark_jobs.storage.state_file import PartitionState

Int64s = npt.NDArray[np.int64]
TIDY_ABOVE = 1 << 16
"""Places that nobody waits in any more, before the room is tidied."""


class ParkingMemory(PartitionMemory):
    """A partition's state with parked batches; `object` of their rows is their object's order."""

    def __init__(self, state: PartitionState, rules: Rules, *, in_parking: Rows, most: int) -> None:
        super().__init__(state, rules)
        self._rows = in_parking
        self._room = ParkedBatches(_batches(in_parking), rules=rules, most=most)

    def judge_with_parking(self, chunk: Chunk, is_parkable: npt.NDArray[np.bool_]) -> tuple[Judged, Rows]:
        """What is decided now, by the chunk's batches and by those that they free."""
        is_open, used = chunk.preset == OPEN, self._room.used
        open_places = np.flatnonzero(is_open)
        batches = batches_of(chunk.rows)
        found, freed = self._room.arrive(
            select_batches(batches, is_open), is_parkable[is_open], self.producers
        )
        parked = open_places[self._room.parked_since(used)]
        self._rows = np.concatenate((self._rows, inherited_of(take(chunk.rows, parked))))
        decisions = scatter(found, is_open, chunk.preset, batches.base_offset)
        after = np.where(freed.after < 0, -1, open_places[freed.after])
        judged = self._in_order(chunk, decisions, freed, after)
        self._tidy()
        return judged, self._track(judged)

    def end(self) -> tuple[Judged, Rows]:
        """Ends the run: decides parked batches whose gap was not filled."""
        freed = self._room.end(self.producers)
        judged = self._judged(freed.places, freed.decisions)
        return judged, self._track(judged)

    def left(self) -> tuple[Judged, Rows]:
        """The parked batches on, as verdicts and as rows."""
        places, decisions = self._room.stay(self.producers)
        return self._judged(places, decisions), self._rows[places]

    def _track(self, judged: Judged) -> Rows:
        tracked = self.transactions.track(batches_of(judged.rows), judged.decisions)
        judged.outside_transaction[:] = tracked.outside_transaction
        return tracked.closed

    def _in_order(self, chunk: Chunk, decisions: DecisionColumns, freed: Freed, after: Int64s) -> Judged:
        """The chunk's rows that were decided, each with those that it freed behind it."""
        decided = np.flatnonzero(decisions.verdict != PARKED)
        freed_rows = index_rows_of(self._rows[freed.places])
        rows = (
            concatenate([take(chunk.rows, decided), freed_rows])
            if freed_rows.num_rows
            else take(chunk.rows, decided)
        )
        is_freed = np.arange(rows.num_rows) >= len(decided)
        order = np.lexsort((is_freed, np.concatenate((decided, after))))
        together = DecisionColumns._make(
            np.concatenate((getattr(decisions, name)[decided], getattr(freed.decisions, name)))
            for name in DecisionColumns._fields
        )
        return _judged(take(rows, order), select_decisions(together, order))

    def _judged(self, places: Int64s, decisions: DecisionColumns) -> Judged:
        return _judged(index_rows_of(self._rows[places]), decisions)

    def _tidy(self) -> None:
        if self._room.used - self._room.in_parking > max(TIDY_ABOVE, self._room.in_parking):
            self._rows = self._rows[self._room.tidy()]


def _judged(rows: pa.RecordBatch, decisions: DecisionColumns) -> Judged:
    return Judged(
        rows=rows,
        copy=np.zeros(rows.num_rows, dtype=np.int32),
        decisions=decisions,
        outside_transaction=np.zeros(rows.num_rows, dtype=np.bool_),
    )


def _batches(rows: Rows) -> BatchColumns:
    return batch_columns(rows[name] for name in BatchColumns._fields)
