"""How far each partition can be published without splitting a transaction, and what follows for each.

A partition is decided up to its oldest undecided transaction. A committed transaction that
reaches beyond that, on any of its partitions, is held on all of them, and so moves their cuts before itself;
this may affect further transactions. The run's cut is the fixed point: every committed
transaction is published whole, or not at all.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.pipeline.resolve.parts import Flags, Int64s, Numbers, part_rows
from spark_jobs.pipeline.resolve.transaction_rows import ABORTED, COMMITTED, Joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """Parts of committed transactions with records to publish: whose, where, from which to which offset."""

    transaction: Numbers
    partition: Numbers
    first_offset: Int64s
    last_offset: Int64s


def lower_cuts(extents: Extents, cuts: Int64s, floors: Int64s) -> Int64s:
    """`cuts` moved down until no transaction is on both sides; never below `floors`: that is published."""
    lowered = cuts
    while True:
        held = held_parts(extents, lowered)
        moved = lowered.copy()
        np.minimum.at(moved, extents.partition[held], extents.first_offset[held])
        moved = np.maximum(moved, floors)
        if np.array_equal(moved, lowered):
            return lowered
        lowered = moved


def held_parts(extents: Extents, cuts: Int64s) -> Flags:
    """Which parts are of a transaction that reaches beyond a cut somewhere."""
    is_beyond = extents.last_offset >= cuts[extents.partition]
    is_held = np.zeros(extents.transaction.max(initial=-1) + 1, dtype=np.bool_)
    is_held[extents.transaction[is_beyond]] = True
    found: Flags = is_held[extents.transaction]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBefore:
    """How far each partition had been published before the run, and which ones are published at all."""

    floors: Int64s
    is_internal: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTransactions:
    """Parts with the number of their transaction, and the transactions by that number."""

    parts: Rows
    transaction: Numbers
    transactions: pa.Table
    published: PublishedBefore

    @property
    def outcome(self) -> Numbers:
        """Of each transaction, its place in `OUTCOME_NAMES`."""
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
        """Of each transaction, whether what is missing leaves its end open: it holds nothing back."""
        return flags(self.transactions, "set_aside")

    @property
    def is_undecided(self) -> Flags:
        """Of each transaction, whether it is neither committed nor aborted."""
        outcome = self.outcome
        found: Flags = (outcome != COMMITTED) & (outcome != ABORTED)
        return found

    @property
    def is_unpublished(self) -> Flags:
        """Of each part, whether it has records that no run has published."""
        parts = self.parts
        is_new = parts["last_offset"] >= self.published.floors[parts["partition"]]
        is_kept = is_new | (parts["is_below_published"] != 0)
        found: Flags = (parts["batches"] > 0) & ~self.published.is_internal[parts["partition"]] & is_kept
        return found

    @property
    def is_open_data(self) -> Flags:
        """Of each part, whether it has data of an undecided transaction that holds others back."""
        is_open = (self.is_undecided & ~self.is_set_aside)[self.transaction]
        found: Flags = is_open & (self.parts["batches"] > 0)
        return found

    def to_publish(self) -> Extents:
        """The parts of committed transactions that no run has published."""
        chosen = self.is_unpublished & (self.outcome == COMMITTED)[self.transaction]
        return Extents(
            transaction=self.transaction[chosen],
            partition=self.parts["partition"][chosen],
            first_offset=self.parts["first_offset"][chosen],
            last_offset=self.parts["last_offset"][chosen],
        )

    def oldest_undecided(self, ends: Int64s) -> Int64s:
        """For each partition where its oldest undecided transaction begins, its end without one."""
        parts, floors = self.parts, self.published.floors
        chosen = self.is_open_data & (parts["last_offset"] >= floors[parts["partition"]])
        oldest = ends.copy()
        np.minimum.at(oldest, parts["partition"][chosen], parts["first_offset"][chosen])
        return np.maximum(oldest, floors)


def read_joined(lake: ObjectStore, joined: Joined, published: PublishedBefore) -> JoinedTransactions:
    """The files of a bucket: tables of `JOINED_PARTS` and `JOINED_TRANSACTIONS`."""
    parts = read_table(lake, joined.parts)
    numbers: Numbers = parts.column("transaction").to_numpy()
    return JoinedTransactions(
        parts=part_rows(parts),
        transaction=numbers,
        transactions=read_table(lake, joined.transactions),
        published=published,
    )


def flags(table: pa.Table, name: str) -> Flags:
    """A column of booleans."""
    found: Flags = table.column(name).combine_chunks().to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """By partition number: up to where the run publishes, where undecided ones begin, where logs end."""

    cuts: Int64s
    decided: Int64s
    ends: Int64s
    published: PublishedBefore


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispositions:
    """Of each transaction: whether it is held though committed, published now, completed, listed.

    Of a completed one neither data nor marker nor publication is to come.
    """

    is_held: Flags
    is_published: Flags
    is_completed: Flags
    is_listed: Flags


def dispositions_of(file: JoinedTransactions, cuts: Int64s) -> Dispositions:
    """The disposition of each transaction of `file`."""
    extents = file.to_publish()
    count = file.transactions.num_rows
    is_held, is_due = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    is_held[extents.transaction[held_parts(extents, cuts)]] = True
    is_due[extents.transaction] = True
    return Dispositions(
        is_held=is_held,
        is_published=is_due & ~is_held,
        is_completed=flags(file.transactions, "is_ended") & ~is_held,
        is_listed=flags(file.transactions, "is_news") | file.is_undecided | is_due,
    )
