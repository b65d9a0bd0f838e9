"""Decoded records with what their batches, their transaction and the run say of them."""

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.materialising.decoding import Piece
from spark_jobs.materialising.outcomes import View, names_of
from spark_jobs.materialising.rows import BatchRows
from spark_jobs.protocol.record_batch import TIMESTAMP_TYPE_FLAG, TimestampType
from spark_jobs.tables.records import RECORDS

_TIMESTAMP_TYPES = tuple(TimestampType)
_NO_TIMESTAMP, _CREATE_TIME, _LOG_APPEND_TIME = map(
    _TIMESTAMP_TYPES.index,
    (TimestampType.NO_TIMESTAMP_TYPE, TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME),
)
_EPOCH = date(1970, 1, 1)


_COUNTING = ("offset", "timestamp", "sequence")
RECORD_OPTIONS: dict[str, Any] = {
    "write_page_index": True,
    "use_dictionary": [
        "partition",
        "timestamp_type",
        "producer_id",
        "producer_epoch",
        "transactional_id",
        "partition_leader_epoch",
        "run_date",
        "headers.list.element.key",
    ],
    "column_encoding": dict.fromkeys(_COUNTING, "DELTA_BINARY_PACKED"),
}
"""Where values only grow, differences are smaller than a dictionary; where they vary, it would not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTable:
    """Makes rows of the table `records` for one partition; what `view` does not show is left out."""

    partition: int
    view: View
    run_date: date

    def rows_of(self, piece: Piece) -> pa.Table:
        """The records of `piece` as rows of the table."""
        records, headers = piece.records, piece.rows.headers
        batch = np.asarray(records.column("batch"))
        count = batch.size
        transaction = self.view.outcomes.index_of(piece.rows.txn_first_offset)[batch]
        days = np.full(count, (self.run_date - _EPOCH).days, dtype=np.int32)
        columns = {
            "partition": np.full(count, self.partition, dtype=np.int32),
            "timestamp_type": pa.array(_TIMESTAMP_TYPES).take(pa.array(timestamp_types(piece.rows)[batch])),
            "producer_id": headers.producer_id[batch],
            "producer_epoch": headers.producer_epoch[batch].astype(np.int32),
            "transactional_id": names_of(self.view.outcomes.transactional_id, transaction),
            "partition_leader_epoch": headers.partition_leader_epoch[batch],
            "run_date": pa.array(days, pa.int32()).cast(pa.date32()),
            **{name: records.column(name) for name in records.schema.names if name != "batch"},
        }
        table = pa.table([columns[name] for name in RECORDS.schema.names], schema=RECORDS.schema)
        visible = np.asarray(records.column("offset")) >= self.view.first_offsets(piece.rows)[batch]
        return table if visible.all() else table.filter(pa.array(visible))  # a log may begin inside a batch


def timestamp_types(rows: BatchRows) -> "np.ndarray[tuple[int], np.dtype[np.int8]]":
    """Each batch's timestamp type, as its place in the enumeration."""
    stamped = np.where(
        rows.headers.attributes & TIMESTAMP_TYPE_FLAG, np.int8(_LOG_APPEND_TIME), np.int8(_CREATE_TIME)
    )
    return np.where(rows.headers.magic == 0, np.int8(_NO_TIMESTAMP), stamped)
