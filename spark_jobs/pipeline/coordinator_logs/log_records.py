"""The records of a coordinator's log, read from staged objects: a window at a time, decoded by kernels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kafka.formats.limits import Limits
from spark_jobs.kafka.formats.record_batch import (
    CONTROL_FLAG,
    LOG_OVERHEAD,
    MAGIC_V2,
    RecordBatchHeader,
    TimestampType,
)
from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.decode import decode_batches
from spark_jobs.lake.index_rows import values
from spark_jobs.lake.manifest import ManifestEntry, StagedObjects

WINDOW_BYTES = 8 * 2**20
COLUMNS = ["object_order", *(name for name in HeaderColumns._fields if name != "crc_ok")]
"""What is read of the tables `index` and `batches`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecords:
    """Records of neighbouring batches that have leader epoch, producer and kind in common.

    `header` is that of the first of them.
    """

    header: RecordBatchHeader
    records: tuple[LogRecord, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReader:
    """Reads batches of staged objects, which are known by their order."""

    staged: StagedObjects
    objects: Mapping[int, ManifestEntry]
    limits: Limits

    def read(self, rows: pa.RecordBatch) -> Iterator[LogRecords]:
        """The records of `rows`, batches of the current format in log order; unreadable ones are problems."""
        current = rows.filter(pa.array(values(rows, "magic") >= MAGIC_V2))
        orders = values(current, "object_order")
        headers = _headers(current)
        for start, stop in _windows(orders, headers.position):
            yield from self._read_window(self.objects[int(orders[start])], headers.part(start, stop))

    def _read_window(self, entry: ManifestEntry, headers: HeaderColumns) -> Iterator[LogRecords]:
        start, end = int(headers.position[0]), int(headers.position[-1] + headers.size[-1])
        data = self.staged.read_range(entry, start, end - start)
        moved = headers._replace(position=headers.position - start)
        decoded = decode_batches(
            data,
            moved,
            limit=self.limits.decompressed_bytes,
            source=f"{entry.source}/{entry.path}",
            origin=start,
        )
        for piece in decoded:
            for problem in piece.problems:
                yield LogRecords(header=_header(moved, problem.batch), records=(), problem=str(problem.error))
            yield from _groups(moved, piece.records)


def _headers(rows: pa.RecordBatch) -> HeaderColumns:
    columns = {name: values(rows, name) for name in HeaderColumns._fields if name != "crc_ok"}
    return HeaderColumns(**columns, crc_ok=np.ones(rows.num_rows, dtype=np.bool_))


def _windows(orders: npt.NDArray[np.int32], positions: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Rows of one object by ascending position, about a window of its bytes at a time."""
    if not orders.size:
        return
    behind = positions[1:] > positions[:-1]
    same_window = positions[1:] // WINDOW_BYTES == positions[:-1] // WINDOW_BYTES
    breaks = np.flatnonzero((orders[1:] != orders[:-1]) | ~behind | ~same_window) + 1
    yield from pairwise([0, *breaks.tolist(), orders.size])


def _groups(headers: HeaderColumns, records: pa.RecordBatch) -> Iterator[LogRecords]:
    """The decoded records, divided where batches of another kind begin."""
    batch = records.column("batch").to_numpy()
    if not batch.size:
        return
    is_control = headers.attributes[batch] & CONTROL_FLAG != 0
    epochs, producers = headers.partition_leader_epoch[batch], headers.producer_id[batch]
    changes = (is_control[1:] != is_control[:-1]) | (epochs[1:] != epochs[:-1])
    changes |= producers[1:] != producers[:-1]
    for start, stop in pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), batch.size]):
        part = records.slice(start, stop - start)
        yield LogRecords(header=_header(headers, int(batch[start])), records=_log_records(part))


def _log_records(records: pa.RecordBatch) -> tuple[LogRecord, ...]:
    columns = (records.column(name).to_pylist() for name in ("offset", "timestamp", "key", "value"))
    return tuple(
        LogRecord(
            offset=offset, timestamp=timestamp, timestamp_type=TimestampType.CREATE_TIME, key=key, value=value
        )
        for offset, timestamp, key, value in zip(*columns, strict=True)
    )


def _header(headers: HeaderColumns, row: int) -> RecordBatchHeader:
    names = RecordBatchHeader.__slots__
    fields = {name: int(getattr(headers, name)[row]) for name in names if name != "batch_length"}
    return RecordBatchHeader(**fields, batch_length=int(headers.size[row]) - LOG_OVERHEAD)
