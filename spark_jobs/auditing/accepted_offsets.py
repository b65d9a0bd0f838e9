"""Offsets of accepted batches: ascending, and without holes that nobody has reported."""

from collections.abc import Mapping

import numpy as np

from spark_jobs.auditing.batch_columns import BatchColumns, Int64s


class AcceptedOffsets:
    """Follows the log of one partition from where the night before has left it."""

    def __init__(self, start_offset: int, gaps: Int64s) -> None:
        """`gaps` are rows of first and last offset that were reported as missing."""
        self._next = start_offset
        self._unexplained = -int((gaps[:, 1] - gaps[:, 0] + 1).sum())
        self._disordered = 0

    def add(self, rows: BatchColumns) -> None:
        """Accepted batches in the order of the table."""
        ends = np.maximum.accumulate(np.append(self._next, rows.last_offset + 1))
        holes = rows.offset - ends[:-1]
        self._disordered += int(np.count_nonzero(holes < 0))
        # A legacy wrapper stands at its last offset, so what seems to be missing before it is inside.
        self._unexplained += int(holes[(holes > 0) & ~rows.is_wrapper].sum())
        self._next = int(ends[-1])

    def facts(self, *, is_compacted: bool) -> Mapping[str, int]:
        """A gap that was reported though nothing is missing counts, too."""
        missing = 0 if is_compacted else abs(self._unexplained)
        return {"disordered_batches": self._disordered, "missing_offsets": missing}
