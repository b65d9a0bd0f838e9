"""The transactions of one partition after the night's cut: what became of each, what of it has to wait."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.transactions import NO_MARKER
from spark_jobs.protocol.group_offsets import OffsetsMarker
from spark_jobs.resolving.cuts import Flags
from spark_jobs.resolving.held_rows import Holding
from spark_jobs.resolving.joined_rows import ABORTED, COMMITTED
from spark_jobs.resolving.joined_rows import OUTCOMES as OUTCOME_NAMES
from spark_jobs.resolving.part_rows import PART
from spark_jobs.storage.waiting_file import WAITING
from spark_jobs.tables.resolve import OUTCOMES


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludedParts:
    """Rows of `PART` by first offset, and what was concluded of each."""

    parts: Rows
    outcome: npt.NDArray[np.int8]
    is_timed_out: Flags
    is_late: Flags
    is_kept: Flags
    transactional_id: "pa.ChunkedArray[Any]"

    @property
    def has_data(self) -> Flags:
        found: Flags = self.parts["batches"] > 0
        return found

    @property
    def is_undecided(self) -> Flags:
        found: Flags = self.has_data & (self.outcome != COMMITTED) & (self.outcome != ABORTED)
        return found

    @property
    def late(self) -> tuple[int, ...]:
        """First offsets of those that are published below the partition's floor."""
        return tuple(self.parts["first_offset"][self.is_late & self.has_data].tolist())

    def holding(self, cut: int) -> Holding:
        """What has to wait if the night publishes up to `cut`."""
        is_over = self.has_data & (self.outcome == ABORTED) & ~self.is_timed_out
        return Holding(
            cut=cut,
            aborted=self.parts["first_offset"][is_over].astype(np.int64),
            timed_out=self.parts["first_offset"][self.parts["timed_out"] != 0].astype(np.int64),
        )

    def waiting(self) -> Rows:
        """Rows of `WAITING` for the next night."""
        kept = self.parts[self.is_kept]
        rows = np.zeros(len(kept), dtype=WAITING)
        for name in WAITING.names or ():
            rows[name] = kept[name]
        return rows

    def ends_without_marker(self) -> tuple[OffsetsMarker, ...]:
        """The ends of open ones that somebody has decided; a timeout alone is nobody's word."""
        is_open = self.has_data & (self.parts["marker_type"] == NO_MARKER)
        chosen = is_open & ~self.is_undecided & ~self.is_timed_out
        ends = zip(self.parts["producer_id"][chosen].tolist(), self.outcome[chosen].tolist(), strict=True)
        return tuple(
            OffsetsMarker(producer_id=producer_id, is_commit=outcome == COMMITTED)
            for producer_id, outcome in ends
        )

    def table(self) -> pa.Table:
        """Rows of the table `outcomes`."""
        chosen = self.has_data
        parts = self.parts[chosen]
        names = ("first_offset", "last_offset", "producer_id", "producer_epoch", "batches", "records")
        marker = parts["marker_offset"]
        columns = {
            **{name: np.ascontiguousarray(parts[name]) for name in names},
            "transactional_id": self.transactional_id.filter(pa.array(chosen)),
            "outcome": pa.array(OUTCOME_NAMES, pa.string()).take(self.outcome[chosen]),
            "timed_out": self.is_timed_out[chosen],
            "marker_offset": pa.array(marker, mask=parts["marker_type"] == NO_MARKER),
        }
        return OUTCOMES.cast(pa.table(columns))


def concluded_parts(table: pa.Table, number: int) -> ConcludedParts:
    """The parts of one partition out of a table of `CONCLUDED_PARTS`."""
    is_own = table.column("partition").to_numpy() == number
    own = table.filter(pa.array(is_own)).sort_by("first_offset")
    rows = np.empty(own.num_rows, dtype=PART)
    for name in PART.names or ():
        rows[name] = own.column(name).to_numpy()
    return ConcludedParts(
        parts=rows,
        outcome=own.column("outcome").to_numpy(),
        is_timed_out=_flags(own, "is_timed_out"),
        is_late=_flags(own, "is_late"),
        is_kept=_flags(own, "is_kept"),
        transactional_id=own.column("transactional_id"),
    )


def _flags(table: pa.Table, name: str) -> Flags:
    found: Flags = table.column(name).combine_chunks().to_numpy(zero_copy_only=False)
    return found
