"""Rows taken apart into leaves: values without nulls, and levels that say where they belong.

A level of definition says how much of a slot is there, one of repetition whether it goes on with a row; a
slot is a value, or the place of one that is missing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.parquet.values import Values

Edges = npt.NDArray[np.int64]
"""How many there are before each row, and of all rows."""
Levels = npt.NDArray[np.uint8] | int
"""Of each slot, or the one that all of them have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shred:
    """Rows of one leaf; without `row_slots` or `row_values` each row has one of them.

    Without `has_values` none has a value.
    """

    rows: int
    values: Values
    definition: Levels | None = None
    repetition: Levels | None = None
    row_slots: Edges | None = None
    row_values: Edges | None = None
    has_values: bool = True

    def slot(self, row: int) -> int:
        """How many slots there are before `row`."""
        return row if self.row_slots is None else int(self.row_slots[row])

    def value(self, row: int) -> int:
        """How many values there are before `row`."""
        if self.row_values is None:
            return row if self.has_values else 0
        return int(self.row_values[row])


def edges(counts: npt.NDArray[Any]) -> Edges:
    """Where each begins, and the last one ends, of things that take so many places."""
    found = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=found[1:])
    return found
