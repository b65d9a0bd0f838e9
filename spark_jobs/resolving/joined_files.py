"""The files of the join as columns, with what each part still has to publish."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.kernels.producers import Rows
from spark_jobs.resolving.cuts import Extents, Flags, Numbers, Offsets
from spark_jobs.resolving.joined_rows import ABORTED, COMMITTED, Joined
from spark_jobs.resolving.part_rows import PART
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far each partition had been published before the night, and which ones are published at all."""

    floors: Offsets
    is_internal: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedFile:
    """Parts with the number of their transaction, and the transactions by that number."""

    parts: Rows
    transaction: Numbers
    transactions: pa.Table
    reach: Reach

    @property
    def outcome(self) -> Numbers:
        """Of each transaction, its place in `OUTCOMES`."""
        codes: Numbers = self.transactions.column("outcome_code").to_numpy().astype(np.int32)
        return codes

    @property
    def is_timed_out(self) -> Flags:
        """Of each transaction, whether only its timeout has ended it."""
        return flags(self.transactions, "timed_out")

    @property
    def is_behind(self) -> Flags:
        """Of each transaction, whether the coordinator's copy is older than the data, and decides nothing."""
        return flags(self.transactions, "is_behind")

    @property
    def is_set_aside(self) -> Flags:
        """Of each transaction, whether what is missing leaves its end open: nothing waits for it."""
        return flags(self.transactions, "set_aside")

    @property
    def is_undecided(self) -> Flags:
        """Of each transaction, whether nobody has decided it."""
        outcome = self.outcome
        found: Flags = (outcome != COMMITTED) & (outcome != ABORTED)
        return found

    @property
    def is_unpublished(self) -> Flags:
        """Of each part, whether it has records that no night has published."""
        parts = self.parts
        is_new = parts["last_offset"] >= self.reach.floors[parts["partition"]]
        is_kept = is_new | (parts["timed_out"] != 0)
        found: Flags = (parts["batches"] > 0) & ~self.reach.is_internal[parts["partition"]] & is_kept
        return found

    @property
    def is_waited_for(self) -> Flags:
        """Of each part, whether it has data of a transaction that somebody has yet to decide."""
        is_open = (self.is_undecided & ~self.is_set_aside)[self.transaction]
        found: Flags = is_open & (self.parts["batches"] > 0)
        return found

    def to_publish(self) -> Extents:
        """The parts of committed transactions that no night has published."""
        chosen = self.is_unpublished & (self.outcome == COMMITTED)[self.transaction]
        return Extents(
            transaction=self.transaction[chosen],
            partition=self.parts["partition"][chosen],
            first_offset=self.parts["first_offset"][chosen],
            last_offset=self.parts["last_offset"][chosen],
        )

    def oldest_undecided(self, ends: Offsets) -> Offsets:
        """For each partition where its oldest undecided transaction begins, its end without one."""
        parts, floors = self.parts, self.reach.floors
        chosen = self.is_waited_for & (parts["last_offset"] >= floors[parts["partition"]])
        oldest = ends.copy()
        np.minimum.at(oldest, parts["partition"][chosen], parts["first_offset"][chosen])
        return np.maximum(oldest, floors)


def read_joined(lake: ObjectStore, joined: Joined, reach: Reach) -> JoinedFile:
    """The files that a task of the join wrote."""
    return _joined_file(read_table(lake, joined.parts), read_table(lake, joined.transactions), reach)


def _joined_file(parts: pa.Table, transactions: pa.Table, reach: Reach) -> JoinedFile:
    """Tables of `JOINED_PARTS` and `JOINED_TRANSACTIONS`."""
    rows = np.empty(parts.num_rows, dtype=PART)
    for name in PART.names or ():
        rows[name] = parts.column(name).to_numpy()
    numbers: Numbers = parts.column("transaction").to_numpy()
    return JoinedFile(parts=rows, transaction=numbers, transactions=transactions, reach=reach)


def flags(table: pa.Table, name: str) -> Flags:
    """A column of booleans."""
    found: Flags = table.column(name).combine_chunks().to_numpy(zero_copy_only=False)
    return found
