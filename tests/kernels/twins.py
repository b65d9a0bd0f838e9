"""Results of the pure twins and of the kernels in one form, for comparison."""

from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.control_record import read_first_control_type, read_marker
from spark_jobs.kafka.formats.legacy import LegacyHeader
from spark_jobs.kafka.log.segment import ScannedBatch, scan
from spark_jobs.kernels.columns import (
    NO_CONTROL_TYPE,
    NO_COORDINATOR_EPOCH,
    UNREADABLE_CONTROL_TYPE,
    HeaderColumns,
)
from spark_jobs.kernels.scan import ERROR_OF, HeaderScan

Row = tuple[int | bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A scan as plain values: rows in the order of `HeaderColumns`, where it stopped, the error if any."""

    rows: tuple[Row, ...]
    position: int
    error: type[CorruptData] | None


def pure_scan(
    data: bytes, *, start: int = 0, end: int | None = None, check_crc: bool = True, check_magic: bool = True
) -> Scan:
    """The scan of `data` by `kafka.log.segment`."""
    batches: list[ScannedBatch] = []
    error = None
    try:
        batches.extend(scan(data, start=start, end=end, check_crc=check_crc, check_magic=check_magic))
    except CorruptData as problem:
        error = type(problem)
    return Scan(
        rows=tuple(_row(data, batch) for batch in batches),
        position=batches[-1].end if batches else start,
        error=error,
    )


def kernel_scan(found: HeaderScan) -> Scan:
    """The scan of `data` by the kernel."""
    return Scan(
        rows=rows_of(found.columns), position=found.stop.position, error=ERROR_OF.get(found.stop.reason)
    )


def rows_of(columns: HeaderColumns) -> tuple[Row, ...]:
    """Columns as rows of plain numbers."""
    lists: Sequence[list[int]] = [column.tolist() for column in columns]
    return tuple(zip(*lists, strict=True))


def _row(data: bytes, batch: ScannedBatch) -> Row:
    header, place = batch.header, (batch.position, batch.header.size)
    if isinstance(header, LegacyHeader):
        return (
            *place, header.offset, -1, header.magic, header.crc, True, header.attributes, 0, header.timestamp,
            header.timestamp, -1, -1, -1, -1, NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH,
        )  # fmt: skip
    return (
        *place, header.base_offset, header.partition_leader_epoch, header.magic, header.crc, True,
        header.attributes, header.last_offset_delta, header.base_timestamp, header.max_timestamp,
        header.producer_id, header.producer_epoch, header.base_sequence, header.record_count,
        *_control(data[batch.position : batch.end]),
    )  # fmt: skip


def _control(batch: bytes) -> tuple[int, int]:
    try:
        control_type, marker = read_first_control_type(batch), read_marker(batch)
    except CorruptData:
        return UNREADABLE_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    if control_type is None:
        return NO_CONTROL_TYPE, NO_COORDINATOR_EPOCH
    return control_type, NO_COORDINATOR_EPOCH if marker is None else marker.coordinator_epoch
