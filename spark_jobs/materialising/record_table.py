"""Decoded records with what their batches, their transaction and the run say of them."""

from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
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
_TYPE_NAMES = pa.array(_TIMESTAMP_TYPES, pa.string())
_EPOCH = date(1970, 1, 1)

Counts = npt.NDArray[np.int64]

_COUNTING = ("offset", "timestamp", "sequence")
RECORD_OPTIONS: dict[str, Any] = {
    "write_page_index": True,
    "max_rows_per_page": 100_000,
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
"""Where values only grow, differences are smaller than a dictionary; where they vary, it would not help.

A page costs as much as thousands of small values: a column of these has few of them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTable:
    """Makes rows of the table `records` for one partition; what `view` does not show is left out."""

    partition: int
    view: View
    run_date: date

    def rows_of(self, piece: Piece) -> pa.Table:
        """The records of `piece` as rows of the table, as they are written."""
        records, headers, counts = piece.records, piece.rows.headers, records_per_batch(piece)
        days = np.full(records.num_rows, (self.run_date - _EPOCH).days, dtype=np.int32)
        columns = {
            "partition": np.full(records.num_rows, self.partition, dtype=np.int32),
            "timestamp_type": pa.DictionaryArray.from_arrays(
                np.repeat(timestamp_types(piece.rows), counts), _TYPE_NAMES
            ),
            "producer_id": np.repeat(headers.producer_id, counts),
            "producer_epoch": np.repeat(headers.producer_epoch.astype(np.int32), counts),
            "transactional_id": self._transactional_ids(piece.rows, counts),
            "partition_leader_epoch": np.repeat(headers.partition_leader_epoch, counts),
            "run_date": pa.array(days, pa.int32()).cast(pa.date32()),
            **{name: records.column(name) for name in records.schema.names if name != "batch"},
        }
        table = pa.table([columns[name] for name in _WRITTEN.names], schema=_WRITTEN)
        return self._visible(table, piece.rows, counts)

    def _transactional_ids(self, rows: BatchRows, counts: Counts) -> "pa.Array[Any]":
        outcomes = self.view.outcomes
        names = outcomes.transactional_id
        if names.null_count == len(names):  # nobody names any
            nameless: pa.Array[Any] = pa.nulls(int(counts.sum()), names.type)
            return nameless
        return names_of(names, np.repeat(outcomes.index_of(rows.txn_first_offset), counts))

    def _visible(self, table: pa.Table, rows: BatchRows, counts: Counts) -> pa.Table:
        """Without what lies before the first offset that is shown: a log may begin inside a batch."""
        first_offsets = self.view.first_offsets(rows)
        if (rows.headers.base_offset >= first_offsets).all():
            return table
        offsets = table.column("offset").to_numpy()
        return table.filter(pa.array(offsets >= np.repeat(first_offsets, counts)))


def as_written(schema: pa.Schema) -> pa.Schema:
    """The schema of a topic's table with a column of few values in the form that Parquet takes as it is.

    What readers of the file get is `schema`.
    """
    place = schema.get_field_index("timestamp_type")
    return schema.set(place, schema.field(place).with_type(pa.dictionary(pa.int8(), pa.string())))


_WRITTEN = as_written(RECORDS.schema)


def records_per_batch(piece: Piece) -> Counts:
    """How many records of each batch there are in `piece`."""
    batches = np.arange(piece.rows.rows + 1, dtype=np.int32)
    counts: Counts = np.diff(np.searchsorted(np.asarray(piece.records.column("batch")), batches))
    return counts


def timestamp_types(rows: BatchRows) -> npt.NDArray[np.int8]:
    """Each batch's timestamp type, as its place in the enumeration."""
    stamped = np.where(
        rows.headers.attributes & TIMESTAMP_TYPE_FLAG, np.int8(_LOG_APPEND_TIME), np.int8(_CREATE_TIME)
    )
    return np.where(rows.headers.magic == 0, np.int8(_NO_TIMESTAMP), stamped)
