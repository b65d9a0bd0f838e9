"""Rows of `batches` and held rows of earlier runs, as columns for the audit."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kafka.formats.record_batch import CODEC_MASK, CONTROL_FLAG, MAGIC_V2
from spark_jobs.kafka.producers.verdict import Verdict
from spark_jobs.kafka.transactions.outcome import Outcome
from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.record_rows import OffsetRanges
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.tables.admit import MARKER_OBJECT

NONE = -1
Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

READ = [
    "object_order", "magic", "attributes", "last_offset_delta", "producer_id", "producer_epoch",
    "base_sequence", "record_count", "max_timestamp", "verdict", "offset", "txn_first_offset",
]  # fmt: skip
"""The columns of `batches` that are read."""


class AcceptedBatches(NamedTuple):
    """One row per accepted batch; offsets are -1 where there is none."""

    offset: Int64s
    last_offset: Int64s
    producer_id: Int64s
    producer_epoch: Int64s
    base_sequence: Int64s
    last_offset_delta: Int64s
    record_count: Int64s
    max_timestamp: Int64s
    txn_first_offset: Int64s
    is_data: Flags
    is_wrapper: Flags

    def take(self, rows: Flags) -> "AcceptedBatches":
        """The chosen rows."""
        return AcceptedBatches._make(column[rows] for column in self)


def accepted_of(batch: pa.RecordBatch) -> AcceptedBatches:
    """The accepted rows of a part of `batches`."""
    accepted = batch.filter(pc.equal(batch.column("verdict"), pa.scalar(Verdict.ACCEPTED.value)))
    return _columns({name: _numbers(accepted.column(name)) for name in READ if name != "verdict"})


def held_of(rows: Rows) -> AcceptedBatches:
    """Rows of dtype `INHERITED`: all of them were accepted by some run."""
    return _columns({name: rows[name] for name in READ if name not in {"verdict", "object_order"}})


def is_counted(batch: pa.RecordBatch) -> "pa.Array[Any]":
    """Which rows came in; markers that are in no object were made by the run."""
    return pc.not_equal(batch.column("object_order"), pa.scalar(MARKER_OBJECT, pa.int32()))


def _columns(found: dict[str, npt.NDArray[Any]]) -> AcceptedBatches:
    wide: dict[str, Int64s] = {name: column.astype(np.int64) for name, column in found.items()}
    is_legacy, attributes = wide["magic"] < MAGIC_V2, wide["attributes"]
    return AcceptedBatches(
        last_offset=wide["offset"] + wide["last_offset_delta"],
        is_data=is_legacy | (attributes & CONTROL_FLAG == 0),
        is_wrapper=is_legacy & (attributes & CODEC_MASK != 0),
        **{name: wide[name] for name in AcceptedBatches._fields if name in wide},
    )


def _numbers(column: "pa.Array[Any]") -> npt.NDArray[Any]:
    return np.asarray(column.fill_null(NONE) if column.null_count else column)


# Outcomes of the transactions of one partition, by offset and by producer.


def _nothing() -> Int64s:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOffsets:
    """Transactions by ascending first offset; read apart from `materialise`, whose work is audited."""

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


def read_outcomes(lake: ObjectStore, key: str) -> TransactionOffsets:
    """The outcomes in the file `key`; none without one."""
    if not key:
        return TransactionOffsets()
    table = read_table(lake, key)
    return TransactionOffsets(
        first_offset=np.asarray(table.column("first_offset")),
        last_offset=np.asarray(table.column("last_offset")),
        producer_id=np.asarray(table.column("producer_id")),
        is_committed=np.asarray(pc.equal(table.column("outcome"), pa.scalar(Outcome.COMMITTED.value))),
    )
