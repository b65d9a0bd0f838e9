"""Offsets of accepted batches: ascending, and without holes that nobody has reported."""

from collections.abc import Mapping

import numpy as np

from spark_jobs.auditing.batch_columns import BatchColumns, Int64s


class AcceptedOffsets:
    """Follows the log of one partition from the end of the previous run."""

    def __init__(self, start_offset: int, gaps: Int64s, *, cleaned_offset: int = 0) -> None:
        """`gaps` are rows of first and last offset that were reported as missing.

        Below `cleaned_offset` a broker's cleaner was, and left holes.
        """
        self._next, self._cleaned = start_offset, cleaned_offset
        self._unexplained = -int(self._beyond(gaps[:, 0], gaps[:, 1] + 1).sum())
        self._disordered = 0

    def add(self, rows: BatchColumns) -> None:
        """Accepted batches in the order of the table."""
        ends = np.maximum.accumulate(np.append(self._next, rows.last_offset + 1))
        self._disordered += int(np.count_nonzero(rows.offset < ends[:-1]))
        # A legacy wrapper is at its last offset, so what seems to be missing before it is inside.
        holes = self._beyond(ends[:-1], rows.offset)
        self._unexplained += int(holes[~rows.is_wrapper].sum())
        self._next = int(ends[-1])

    def _beyond(self, first: Int64s, end: Int64s) -> Int64s:
        """How many offsets of each range no cleaner explains."""
        missing: Int64s = np.maximum(end - np.maximum(first, self._cleaned), 0)
        return missing

    def facts(self, *, is_compacted: bool, end_offset: int = 0) -> Mapping[str, int]:
        """A gap that was reported though nothing is missing counts, too; the log ends at `end_offset`."""
        left = int(self._beyond(np.array([self._next]), np.array([end_offset]))[0])
        missing = 0 if is_compacted else abs(self._unexplained + left)
        return {"disordered_batches": self._disordered, "missing_offsets": missing}
