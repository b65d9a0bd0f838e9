"""The records of a piece of a log as Arrow: decompressed, decoded, only the wanted columns and ranges."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kafka.formats.record_batch import MAGIC_V2, NO_TIMESTAMP
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.lake.errors import ObjectChanged
from spark_jobs.reading.batch_labels import TIMESTAMP_TYPES, timestamp_types
from spark_jobs.reading.contracts import LOG_RECORDS
from spark_jobs.reading.plain import PlainRecords, read_plainly, scan_plainly
from spark_jobs.reading.read_plan import PlannedRead, ReadOptions, checksum_of
from spark_jobs.reading.record_columns import Timestamps, repeated, without_nulls
from spark_jobs.tables.contract import FIRST_TIMESTAMP_MS, LAST_TIMESTAMP_MS

if TYPE_CHECKING:
    from spark_jobs.kernels.record_buffers import FoundRecords

DECODED_BYTES = 12 * 2**20
"""Bytes of decompressed records that are decoded at once, give or take a half."""


@cache
def _type_names() -> "pa.Array[Any]":
    """Made at the first use: with its first array Arrow imports pandas, where it is installed."""
    return pa.array(TIMESTAMP_TYPES, pa.string())


@dataclass(frozen=True, kw_only=True)
class DecodedRecords:
    """Records of the batches of `headers`, which have `counts` records each."""

    piece: PlannedRead
    headers: HeaderColumns
    counts: npt.NDArray[np.integer[Any]]
    found: "FoundRecords | PlainRecords"

    def of_batch(self, values: npt.NDArray[Any], kind: pa.DataType) -> "pa.Array[Any]":
        """For each record the value of its batch."""
        if kind == pa.int32() and values.size and (values == values[0]).all():  # epochs have few values
            return self.constant(int(values[0]), kind)
        return without_nulls(np.repeat(values, self.counts), kind)

    def constant(self, value: object, kind: pa.DataType) -> "pa.Array[Any]":
        """The same value for each record."""
        return repeated(value, kind, self.found.count)

    def timestamp_type(self) -> "pa.Array[Any]":
        kinds = timestamp_types(self.headers)
        if kinds.size and (kinds == kinds[0]).all():
            return self.constant(TIMESTAMP_TYPES[kinds[0]], pa.string())
        return _type_names().take(self.of_batch(kinds, pa.int64()))

    @cached_property
    def timestamps(self) -> "dict[str, pa.Array[Any]]":
        """Both columns of timestamps."""
        return Timestamps.of(self.found.rows.timestamp).columns()


_COLUMNS: dict[str, Callable[[DecodedRecords], "pa.Array[Any]"]] = {
    "topic": lambda records: records.constant(records.piece.topic, pa.string()),
    "partition": lambda records: records.constant(records.piece.partition, pa.int32()),
    "offset": lambda records: without_nulls(records.found.rows.offset, pa.int64()),
    "timestamp": lambda records: records.timestamps["timestamp"],
    "timestamp_type": DecodedRecords.timestamp_type,
    "timestamp_out_of_range": lambda records: records.timestamps["timestamp_out_of_range"],
    "key": lambda records: records.found.key,
    "value": lambda records: records.found.value,
    "headers": lambda records: records.found.headers,
    "producer_id": lambda records: records.of_batch(records.headers.producer_id, pa.int64()),
    "producer_epoch": lambda records: records.of_batch(
        records.headers.producer_epoch.astype(np.int32), pa.int32()
    ),
    "sequence": lambda records: without_nulls(records.found.rows.sequence, pa.int32()),
    "partition_leader_epoch": lambda records: records.of_batch(
        records.headers.partition_leader_epoch, pa.int32()
    ),
}


def record_schema(columns: tuple[str, ...]) -> pa.Schema:
    """The schema of the chosen columns, in their order."""
    return pa.schema([LOG_RECORDS.schema.field(name) for name in columns])


def read_piece(piece: PlannedRead, wanted: ReadOptions) -> list[pa.RecordBatch]:
    """The wanted records of a piece; raises if a batch cannot be read or is not the one that was planned."""
    schema = record_schema(wanted.columns)
    with piece.file.viewed(piece.start, piece.end) as data:
        return [
            _as_batch(records, wanted, schema)
            for records in _decode(data, piece, _headers(data, piece))
            if records.found.count
        ]


def _headers(data: bytes | memoryview, piece: PlannedRead) -> HeaderColumns:
    headers = _scan(data, piece)
    is_planned = headers.rows == piece.rows and checksum_of(headers) == piece.checksum
    chosen = headers.pick(piece.mask) if is_planned else headers
    if not is_planned or not chosen.crc_ok.all():
        raise ObjectChanged(
            f"{piece.file.url}: changed while it was read: bytes {piece.start} to {piece.end} are not "
            "those whose headers were read; read the log again"
        )
    return chosen


def _scan(data: bytes | memoryview, piece: PlannedRead) -> HeaderColumns:
    if piece.plainly:
        return scan_plainly(data, source=piece.file.url)[0]
    from spark_jobs.kernels.scan import scan_headers  # noqa: PLC0415 — loads numba

    return scan_headers(data, stop_at_bad_crc=False).columns


def _decode(data: bytes | memoryview, piece: PlannedRead, headers: HeaderColumns) -> Iterator[DecodedRecords]:
    source, origin = piece.file.url, piece.start
    if piece.plainly or headers.magic[0] < MAGIC_V2:
        found = read_plainly(data, headers, source=source, origin=origin)
        counts = np.bincount(found.rows.batch, minlength=headers.rows)
        yield DecodedRecords(piece=piece, headers=headers, counts=counts, found=found)
        return
    from spark_jobs.kernels.decode import decode_batches  # noqa: PLC0415 — loads numba

    for decoded in decode_batches(data, headers, budget=DECODED_BYTES, source=source, origin=origin):
        for problem in decoded.problems:
            raise problem.error
        part = headers.part(decoded.first, decoded.last)
        yield DecodedRecords(piece=piece, headers=part, counts=part.record_count, found=decoded.found)


def _as_batch(records: DecodedRecords, wanted: ReadOptions, schema: pa.Schema) -> pa.RecordBatch:
    columns = [_COLUMNS[name](records) for name in wanted.columns]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    if _is_shown_whole(records.piece, wanted):
        return batch
    shown = _shown(records, wanted)
    return batch if shown.all() else batch.filter(pa.array(shown))


def _is_shown_whole(piece: PlannedRead, wanted: ReadOptions) -> bool:
    """Whether headers already show that all records of the piece are in the ranges."""
    is_open = wanted.offsets.is_open and wanted.timestamps.is_open
    return is_open and piece.offsets.first is not None and piece.first_offset <= piece.offsets.first


def _shown(records: DecodedRecords, wanted: ReadOptions) -> npt.NDArray[np.bool_]:
    """Which records are in the ranges; one without a timestamp is in no range of timestamps."""
    rows = records.found.rows
    shown = wanted.offsets.narrowed(first=records.piece.first_offset).contains(rows.offset)
    if not wanted.timestamps.is_open:
        within = wanted.timestamps.narrowed(first=FIRST_TIMESTAMP_MS, end=LAST_TIMESTAMP_MS + 1)
        shown &= within.contains(rows.timestamp) & (rows.timestamp != NO_TIMESTAMP)
    return shown
