"""What became of the transactions of one partition, for looking up by offset and by producer."""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.auditing.batch_columns import NONE, Flags, Int64s
from spark_jobs.kernels.record_rows import OffsetRanges
from spark_jobs.protocol.transaction_outcome import Outcome
from spark_jobs.storage.object_store import ObjectStore
from spark_jobs.storage.parquet_file import read_table


def _nothing() -> Int64s:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Transactions by ascending first offset."""

    first_offset: Int64s = field(default_factory=_nothing)
    last_offset: Int64s = field(default_factory=_nothing)
    producer_id: Int64s = field(default_factory=_nothing)
    is_committed: Flags = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    def are_committed(self, txn_first_offset: Int64s) -> Flags:
        """Of batches by where their transaction began: -1 is none, which needs no commit."""
        place = np.searchsorted(self.first_offset, txn_first_offset)
        is_known = np.append(self.first_offset, NONE)[place] == txn_first_offset
        committed: Flags = (txn_first_offset == NONE) | (
            is_known & np.append(self.is_committed, False)[place]
        )
        return committed

    def torn_at(self, end_offset: int) -> int:
        """Committed transactions of which only a part is before `end_offset`."""
        begun = self.is_committed & (self.first_offset < end_offset)
        return int(np.count_nonzero(begun & (self.last_offset >= end_offset)))

    def uncommitted(self) -> OffsetRanges:
        """Those of which no record may be published, by producer and first offset."""
        rows = np.flatnonzero(~self.is_committed)
        rows = rows[np.lexsort((self.first_offset[rows], self.producer_id[rows]))]
        return OffsetRanges(self.producer_id[rows], self.first_offset[rows], self.last_offset[rows])


def read_outcomes(lake: ObjectStore, key: str) -> Outcomes:
    """The outcomes in the file `key`; none without one."""
    if not key:
        return Outcomes()
    table = read_table(lake, key)
    return Outcomes(
        first_offset=np.asarray(table.column("first_offset")),
        last_offset=np.asarray(table.column("last_offset")),
        producer_id=np.asarray(table.column("producer_id")),
        is_committed=np.asarray(pc.equal(table.column("outcome"), pa.scalar(Outcome.COMMITTED.value))),
    )
