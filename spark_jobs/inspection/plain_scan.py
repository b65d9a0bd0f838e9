"""Batch headers of a small file in columns, through the plain scan: nothing has to be compiled or loaded."""

from collections.abc import Callable, Iterable, Sequence
from mmap import mmap
from typing import Any

import numpy.typing as npt

from spark_jobs.kernels.columns import (
    NO_CONTROL_TYPE,
    NO_COORDINATOR_EPOCH,
    UNREADABLE_CONTROL_TYPE,
    HeaderColumns,
    allocate,
)
from spark_jobs.protocol.control_record import read_first_control_type, read_marker
from spark_jobs.protocol.errors import BadCrc, CorruptData
from spark_jobs.protocol.legacy import LegacyHeader, check_legacy_crc
from spark_jobs.protocol.record_batch import RecordBatchHeader, check_crc
from spark_jobs.protocol.segment import ScannedBatch, scan


def scan_plainly(data: bytes | mmap, *, source: str) -> tuple[HeaderColumns, CorruptData | None]:
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
        0,  # of the last offset: only a decompressed wrapper tells
        header.timestamp,
        header.timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        -1,  # records: likewise
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
