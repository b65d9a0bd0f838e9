"""Reading without compiled code: headers and records by the rules of `kafka/`, one by one.

Small logs are read this way: it takes less time than loading kernels, or compiling them at their first use.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from mmap import mmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.errors import BadCrc, CorruptData
from spark_jobs.kafka.formats.control_record import (
    ControlType,
    EndTransactionMarker,
    read_first_control_type,
    read_marker,
)
from spark_jobs.kafka.formats.legacy import LegacyHeader, check_legacy_crc, read_legacy_records
from spark_jobs.kafka.formats.record_batch import LOG_OVERHEAD, MAGIC_V2, RecordBatchHeader, check_crc
from spark_jobs.kafka.formats.records import LogRecord, read_records
from spark_jobs.kafka.log.segment import ScannedBatch, scan
from spark_jobs.kafka.producers.admission import fold
from spark_jobs.kafka.producers.producer_state import AppendOrigin, ProducerStateEntry, ProducerStates
from spark_jobs.kafka.producers.verdict import BatchRow, Rules
from spark_jobs.kernels.cache import are_compiled
from spark_jobs.kernels.columns import (
    NO_CONTROL_TYPE,
    NO_COORDINATOR_EPOCH,
    UNREADABLE_CONTROL_TYPE,
    HeaderColumns,
    allocate,
)

if TYPE_CHECKING:
    import pyarrow as pa

FAST_FROM = 2 * 1024 * 1024
"""Bytes from which the compiled scan is worth its loading time of about a second."""
COMPILED_FROM, RECORDS_COMPILED_FROM = 256 * 1024 * 1024, 16 * 1024 * 1024
"""The same where kernels have to be compiled first: from here on plain reading takes about as long as that.

The plain scan takes 10 µs per batch, the plain reader 13 µs per record.
"""
SCAN_KERNELS = ("scan._scan", "scan._walk")
READ_KERNELS = ("scan._scan", "codecs.put_usual", "decode._read", "record_buffers._copy")
FOLD_KERNELS = ("admission._fold", "producers._put_canonical")
FAST_FOLD_FROM, COMPILED_FOLD_FROM = 20_000, 150_000
"""Batches from which the compiled fold is worth loading, and compiling; a plain one takes 20 µs each."""

_HEADER_FIELDS = tuple(field.name for field in fields(RecordBatchHeader) if field.name != "batch_length")


def is_fast_for(size: int, *, records: bool, kernels: Iterable[str]) -> bool:
    """Whether these kernels are worth the time to load or compile them for so many bytes."""
    compiled_from = RECORDS_COMPILED_FROM if records else COMPILED_FROM
    return size >= FAST_FROM and (size >= compiled_from or are_compiled(*kernels))


def is_fold_fast_for(batches: int) -> bool:
    """Whether the compiled fold over producers is worth loading or compiling for so many batches."""
    return batches >= FAST_FOLD_FROM and (batches >= COMPILED_FOLD_FROM or are_compiled(*FOLD_KERNELS))


def fold_plainly(batches: HeaderColumns) -> list[ProducerStateEntry]:
    """The producers after these batches of a log, by producer id."""
    rules = Rules(origin=AppendOrigin.REPLICATION)
    _, after = fold(ProducerStates(), _batch_rows(batches), rules=rules)
    return [after.producers[producer_id] for producer_id in sorted(after.producers)]


def _batch_rows(batches: HeaderColumns) -> Iterator[BatchRow]:
    for row in zip(*(column.tolist() for column in _arrays(batches)), strict=True):
        found = dict(zip(HeaderColumns._fields, row, strict=True))
        header = {name: found[name] for name in _HEADER_FIELDS}
        yield BatchRow(
            header=RecordBatchHeader(batch_length=found["size"] - LOG_OVERHEAD, **header),
            marker=_marker(found["control_type"], found["coordinator_epoch"]),
        )


def _marker(control_type: int, coordinator_epoch: int) -> EndTransactionMarker | None:
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    return EndTransactionMarker(control_type=ControlType(control_type), coordinator_epoch=coordinator_epoch)


def scan_plainly(data: bytes | memoryview | mmap, *, source: str) -> tuple[HeaderColumns, CorruptData | None]:
    """Headers of all whole batches, and what stopped the scan before the end."""
    batches: list[ScannedBatch] = []
    problem = None
    try:
        batches.extend(scan(data, source=source, check_crc=False))
    except CorruptData as error:
        problem = error
    with memoryview(data) as view:
        rows = [_row(view, batch) for batch in batches]
    return _to_columns(rows), problem


def _to_columns(rows: Sequence[tuple[int, ...]]) -> HeaderColumns:
    columns = allocate(len(rows))
    for column, values in zip(_arrays(columns), zip(*rows, strict=True), strict=bool(rows)):
        column[:] = values
    return columns


def _arrays(columns: HeaderColumns) -> Iterable[npt.NDArray[Any]]:
    return columns


def _row(view: memoryview, batch: ScannedBatch) -> tuple[int, ...]:
    """One row in the order of `HeaderColumns`."""
    if isinstance(batch.header, LegacyHeader):
        return _legacy_row(view, batch.position, batch.header)
    return _batch_row(view, batch.position, batch.header)


def _batch_row(view: memoryview, position: int, header: RecordBatchHeader) -> tuple[int, ...]:
    control_type, coordinator_epoch = _control_of(view[position : position + header.size], header)
    return (
        position,
        header.size,
        header.base_offset,
        header.partition_leader_epoch,
        header.magic,
        header.crc,
        _is_right(check_crc, view, position, header),
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
        control_type,
        coordinator_epoch,
    )


def _legacy_row(view: memoryview, position: int, header: LegacyHeader) -> tuple[int, ...]:
    crc_ok = _is_right(check_legacy_crc, view, position, header)
    return (
        position,
        header.size,
        header.offset,
        header.partition_leader_epoch,
        header.magic,
        header.crc,
        crc_ok,
        header.attributes,
        0,  # last offset delta: known only after decompression
        header.timestamp,
        header.timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        -1,  # record count: likewise
        NO_CONTROL_TYPE,
        NO_COORDINATOR_EPOCH,
    )


def _is_right(check: Callable[..., None], view: memoryview, position: int, header: object) -> bool:
    try:
        check(view, position, header, source="")
    except BadCrc:
        return False
    return True


def _control_of(batch: memoryview, header: RecordBatchHeader) -> tuple[int, int]:
    """Control type and coordinator epoch, as the kernel's columns have them."""
    if not header.is_control:
        return NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    try:
        control_type, marker = read_first_control_type(batch), read_marker(batch)
    except CorruptData:
        return UNREADABLE_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    return (
        NO_CONTROL_TYPE if control_type is None else int(control_type),
        NO_COORDINATOR_EPOCH if marker is None else marker.coordinator_epoch,
    )


class PlainRows(NamedTuple):
    """The records' numbers; `batch` is the row of the batch among the headers."""

    batch: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64]
    sequence: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRecords:
    """Records in order, in the form in which kernels find them."""

    rows: PlainRows
    key: "pa.Array[Any]"
    value: "pa.Array[Any]"
    headers: "pa.Array[Any]"

    @property
    def count(self) -> int:
        return self.rows.offset.size


def read_plainly(
    data: bytes | memoryview, headers: HeaderColumns, *, source: str, origin: int
) -> PlainRecords:
    """The records of the batches; `data` begins at byte `origin` of `source`."""
    import pyarrow as pa  # noqa: PLC0415 — `inspect` does without Arrow

    from spark_jobs.reading.contracts import LOG_RECORDS  # noqa: PLC0415

    found: list[LogRecord] = []
    counts: list[int] = []
    for magic, position, size in zip(*(each.tolist() for each in _places(headers)), strict=True):
        read = read_records if magic >= MAGIC_V2 else read_legacy_records
        records = list(read(data[position : position + size], source=source, position=origin + position))
        found += records
        counts.append(len(records))
    return PlainRecords(
        rows=PlainRows(
            batch=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
            offset=np.array([record.offset for record in found], dtype=np.int64),
            timestamp=np.array([record.timestamp for record in found], dtype=np.int64),
            sequence=np.array([record.sequence for record in found], dtype=np.int32),
        ),
        key=pa.array([record.key for record in found], pa.binary()),
        value=pa.array([record.value for record in found], pa.binary()),
        headers=pa.array([_headers_of(record) for record in found], LOG_RECORDS.schema.field("headers").type),
    )


def _places(headers: HeaderColumns) -> tuple[npt.NDArray[Any], ...]:
    return headers.magic, headers.position, headers.size


def _headers_of(record: LogRecord) -> list[dict[str, str | bytes | None]]:
    return [{"key": header.key, "value": header.value} for header in record.headers]
