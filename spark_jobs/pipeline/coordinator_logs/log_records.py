"""The records of a coordinator's log: read from staged objects, and of all copies the batches that count."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kafka.formats.checkpoints import UNDEFINED_EPOCH, EpochEntry
from spark_jobs.kafka.formats.limits import RecordLimits
from spark_jobs.kafka.formats.record_batch import (
    CONTROL_FLAG,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_TIMESTAMP,
    RecordBatchHeader,
    TimestampType,
)
from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kafka.producers.producer_state import NO_OFFSET
from spark_jobs.kernels.admission import ACCEPTED
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.copies import DIVERGENT, CopyColumns, CopyMerger
from spark_jobs.kernels.decode import decode_batches
from spark_jobs.lake.index_rows import IndexedCopy, check_indexed, is_problem, iter_log, values
from spark_jobs.lake.manifest import ManifestEntry, StagedObjects
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.tables.index import INDEX

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
    limits: RecordLimits

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
        name = f"{entry.source}/{entry.path}"
        check_indexed(data, moved, lambda _: name)
        decoded = decode_batches(data, moved, limit=self.limits.decompressed_bytes, source=name, origin=start)
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


_READ = [*COLUMNS, "problem"]
_SCHEMA = pa.schema([INDEX.schema.field(name) for name in _READ])


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCopy:
    """One copy of a log, and the leader epochs of its checkpoint."""

    indexed: IndexedCopy
    leader_epochs: tuple[EpochEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRows:
    """The rows that count, by offset; `replaced` are offsets that were folded, and rewritten since.

    `newest_timestamp` is a broker's time that a copy reaches without damage before it, -1 if none does.
    """

    rows: pa.RecordBatch
    leader_epochs: tuple[EpochEntry, ...]
    end_offset: int
    replaced: tuple[int, ...]
    newest_timestamp: int


def rows_of_log(
    lake: ObjectStore, copies: Sequence[LogCopy], *, end_offset: int, taken_epochs: tuple[EpochEntry, ...]
) -> LogRows:
    """The batches from `end_offset` on; up to there, leaders of `taken_epochs` wrote what was folded before.

    The whole of the rows is in memory: these logs are small, since they are compacted.
    """
    read = [_read_copy(lake, copy) for copy in copies]
    rows = _in_order([batch for each in read for batch in each.rows])
    epochs = _leader_epochs(rows, copies)
    merger = CopyMerger(
        leader_epochs=epochs if len(copies) > 1 else (), taken_epochs=taken_epochs, taken_offset=end_offset
    )
    columns = CopyColumns._make(values(rows, name) for name in CopyColumns._fields)
    codes, _ = merger.merge(columns)
    is_replaced = (codes == DIVERGENT) & (columns.base_offset < end_offset)
    newest = max((entry.epoch for entry in taken_epochs), default=UNDEFINED_EPOCH)
    is_replaced &= columns.partition_leader_epoch > newest
    return LogRows(
        rows=rows.filter(pa.array(codes == ACCEPTED)),
        leader_epochs=_joined(taken_epochs, epochs),
        end_offset=merger.end_offset,
        replaced=tuple(columns.base_offset[is_replaced].tolist()),
        newest_timestamp=_newest_timestamp(
            codes, rows, max((each.whole_until for each in read), default=NO_OFFSET)
        ),
    )


def _newest_timestamp(codes: npt.NDArray[np.int8], rows: pa.RecordBatch, whole_until: int) -> int:
    """The latest time of rows that count, or counted before, up to the offset where no copy is whole."""
    chosen = (codes != DIVERGENT) & (values(rows, "base_offset") <= whole_until)
    return int(values(rows, "max_timestamp")[chosen].max(initial=NO_TIMESTAMP))


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadCopy:
    """The good rows of a copy, and the offset of the last one before any that is damaged."""

    rows: tuple[pa.RecordBatch, ...]
    whole_until: int


def _read_copy(lake: ObjectStore, copy: LogCopy) -> _ReadCopy:
    good: list[pa.RecordBatch] = []
    whole_until, is_damaged = NO_OFFSET, False
    for rows in iter_log(lake, copy.indexed, columns=_READ):
        is_bad = is_problem(rows)
        whole = int(np.argmax(is_bad)) if is_bad.any() else rows.num_rows
        if whole and not is_damaged:
            whole_until = max(whole_until, int(values(rows, "base_offset")[:whole].max()))
        is_damaged |= whole < rows.num_rows
        good.append(rows.filter(pa.array(~is_bad)))
    return _ReadCopy(rows=tuple(good), whole_until=whole_until)


def _in_order(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows by offset; where several begin at one, the newest leader's first, then the fullest."""
    table = pa.Table.from_batches(batches, _SCHEMA).combine_chunks()
    rows = (table.to_batches() or [pa.RecordBatch.from_pylist([], schema=_SCHEMA)])[0]
    keys = ("record_count", "partition_leader_epoch")
    order = np.lexsort((*(-values(rows, name) for name in keys), values(rows, "base_offset")))
    return rows.take(order)


def _leader_epochs(rows: pa.RecordBatch, copies: Iterable[LogCopy]) -> tuple[EpochEntry, ...]:
    """Where each leader began to write, as far as batches and checkpoints show."""
    epochs, first = np.unique(values(rows, "partition_leader_epoch"), return_index=True)
    offsets = values(rows, "base_offset")[first]
    seen = [EpochEntry(epoch=int(e), start_offset=int(o)) for e, o in zip(epochs, offsets, strict=True)]
    noted = (entry for copy in copies for entry in copy.leader_epochs)
    return _joined((entry for entry in seen if entry.epoch > UNDEFINED_EPOCH), noted)


def _joined(*sources: Iterable[EpochEntry]) -> tuple[EpochEntry, ...]:
    starts: dict[int, int] = {}
    for entries in sources:
        for entry in entries:
            starts[entry.epoch] = min(starts.get(entry.epoch, entry.start_offset), entry.start_offset)
    return tuple(EpochEntry(epoch=epoch, start_offset=start) for epoch, start in sorted(starts.items()))
