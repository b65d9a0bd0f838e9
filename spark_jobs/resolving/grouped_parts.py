"""Parts together with the transactions that they are of, and what follows of them for each transaction."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.transactions import NO_MARKER
from spark_jobs.resolving.cuts import Flags, Numbers, Offsets

_LATEST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedParts:
    """Rows of `PART`, the number of each one's transaction, ascending, and how many of those there are."""

    rows: Rows
    transaction: Numbers
    count: int

    @property
    def has_data(self) -> Flags:
        found: Flags = self.rows["batches"] > 0
        return found

    @property
    def has_marker(self) -> Flags:
        found: Flags = self.rows["marker_type"] != NO_MARKER
        return found

    def any_of(self, chosen: Flags) -> Flags:
        """Of each transaction, whether a part of it is chosen."""
        found = np.zeros(self.count, dtype=np.bool_)
        found[self.transaction[chosen]] = True
        return found

    def total(self, name: str) -> Offsets:
        """Of each transaction, the sum of a column over its parts with data."""
        found = np.zeros(self.count, dtype=np.int64)
        chosen = self.has_data
        np.add.at(found, self.transaction[chosen], self.rows[name][chosen])
        return found

    def least(self, name: str, chosen: Flags) -> "pa.Array[Any]":
        """Of each transaction, the least of a column over its chosen parts; null without any."""
        found = np.full(self.count, _LATEST)
        np.minimum.at(found, self.transaction[chosen], self.rows[name][chosen])
        least: pa.Array[Any] = pa.array(found, mask=~self.any_of(chosen))
        return least

    def beginnings(self) -> tuple[Rows, pa.Int32Array]:
        """The first part with data of each transaction on each partition, by transaction, then partition.

        With them the place of each transaction's first one, and behind all of them their number.
        """
        places = np.flatnonzero(self.has_data)
        keys = (self.transaction[places].astype(np.int64) << 32) + self.rows["partition"][places]
        first = places[np.unique(keys, return_index=True)[1]]
        starts = np.searchsorted(self.transaction[first], np.arange(self.count + 1))
        return self.rows[first], pa.array(starts, pa.int32())
