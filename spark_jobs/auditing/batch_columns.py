"""Rows of `batches` and held rows of earlier runs, as columns for the audit."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.kernels.producers import Rows
from spark_jobs.protocol.record_batch import CODEC_MASK, CONTROL_FLAG, MAGIC_V2
from spark_jobs.protocol.verdict import Verdict
from spark_jobs.tables.admit import MARKER_OBJECT

NONE = -1
Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

READ = [
    "object_order", "magic", "attributes", "last_offset_delta", "producer_id", "producer_epoch",
    "base_sequence", "record_count", "max_timestamp", "verdict", "offset", "txn_first_offset",
]  # fmt: skip
"""The columns of `batches` that are read."""


class BatchColumns(NamedTuple):
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

    def take(self, rows: Flags) -> "BatchColumns":
        """The chosen rows."""
        return BatchColumns._make(column[rows] for column in self)


def accepted_of(batch: pa.RecordBatch) -> BatchColumns:
    """The accepted rows of a part of `batches`."""
    accepted = batch.filter(pc.equal(batch.column("verdict"), pa.scalar(Verdict.ACCEPTED.value)))
    return _columns({name: _numbers(accepted.column(name)) for name in READ if name != "verdict"})


def held_of(rows: Rows) -> BatchColumns:
    """Rows of dtype `INHERITED`: all of them were accepted by some run."""
    return _columns({name: rows[name] for name in READ if name not in {"verdict", "object_order"}})


def is_counted(batch: pa.RecordBatch) -> "pa.Array[Any]":
    """Which rows came in; markers that are in no object were made by the run."""
    return pc.not_equal(batch.column("object_order"), pa.scalar(MARKER_OBJECT, pa.int32()))


def _columns(found: dict[str, npt.NDArray[Any]]) -> BatchColumns:
    wide: dict[str, Int64s] = {name: column.astype(np.int64) for name, column in found.items()}
    is_legacy, attributes = wide["magic"] < MAGIC_V2, wide["attributes"]
    return BatchColumns(
        last_offset=wide["offset"] + wide["last_offset_delta"],
        is_data=is_legacy | (attributes & CONTROL_FLAG == 0),
        is_wrapper=is_legacy & (attributes & CODEC_MASK != 0),
        **{name: wide[name] for name in BatchColumns._fields if name in wide},
    )


def _numbers(column: "pa.Array[Any]") -> npt.NDArray[Any]:
    return np.asarray(column.fill_null(NONE) if column.null_count else column)
