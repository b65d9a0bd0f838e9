"""Segments read from disk: every batch's header in columns, and where a broker's recovery would cut the file.

Small files go through the plain scan, which needs nothing compiled; big ones through the kernel. Unlike a
broker's recovery, the scan continues behind a batch with a wrong checksum, so that all batches are shown.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.errors import BadCrc, CorruptData
from spark_jobs.kafka.formats.control_record import read_first_control_type, read_marker
from spark_jobs.kafka.formats.legacy import LegacyHeader, check_legacy_crc
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader, check_crc
from spark_jobs.kafka.log.segment import ScannedBatch, scan
from spark_jobs.kernels.cache import are_compiled
from spark_jobs.kernels.columns import (
    NO_CONTROL_TYPE,
    NO_COORDINATOR_EPOCH,
    UNREADABLE_CONTROL_TYPE,
    HeaderColumns,
    allocate,
    concatenate,
)
from spark_jobs.reading.in_order import in_order

FAST_FROM = 2 * 1024 * 1024
"""Bytes from which the compiled scan is worth its loading time of about a second."""
COMPILED_FROM, RECORDS_COMPILED_FROM = 256 * 1024 * 1024, 16 * 1024 * 1024
"""The same where kernels have to be compiled first: from here on plain reading takes about as long as that.

The plain scan takes 10 µs per batch, the plain reader 13 µs per record.
"""
_KERNELS, _RECORD_KERNELS = ("scan._scan", "scan._walk"), ("record_lines.write_lines",)
_WINDOW = 8 * 1024 * 1024
"""Bytes that one thread scans at a time."""
Buffer = bytes | mmap
Advance = Callable[[int], None]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One file of batches; `problem` is why the scan did not reach its end.

    Records below `first_offset` are served from a segment before this one.
    """

    path: Path
    data: Buffer
    batches: HeaderColumns
    problem: CorruptData | None
    first_offset: int = 0

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def scanned_bytes(self) -> int:
        """Where the scan ended: behind the last whole batch."""
        return int(self.batches.position[-1] + self.batches.size[-1]) if self.batches.rows else 0

    @property
    def valid_bytes(self) -> int:
        """What an unclean recovery would keep (facts §6.1)."""
        bad = np.flatnonzero(~self.batches.crc_ok)
        return int(self.batches.position[bad[0]]) if bad.size else self.scanned_bytes


def is_fast_for(size: int, *, records: bool) -> bool:
    """Whether kernels are worth the time to load or compile them for so many bytes."""
    compiled_from = RECORDS_COMPILED_FROM if records else COMPILED_FROM
    return size >= FAST_FROM and (size >= compiled_from or is_compiled_for(records=records))


def is_compiled_for(*, records: bool) -> bool:
    """Whether the kernels that show batches, or records, have been compiled on this machine."""
    return are_compiled(*_KERNELS, *(_RECORD_KERNELS if records else ()))


def open_segment(path: Path) -> Buffer:
    """The file's bytes without reading them yet; an empty file cannot be mapped."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        return mmap(file.fileno(), size, access=ACCESS_READ) if size else b""


def read_segment(path: Path, advance: Advance = lambda _: None, *, fast: bool | None = None) -> Segment:
    """Scans the whole file; `advance` is called with the bytes of each part."""
    data, source = open_segment(path), path.name
    use_kernel = len(data) >= FAST_FROM if fast is None else fast
    batches, problem = (_scan_fast if use_kernel else _scan_plain)(data, source, advance)
    return Segment(path=path, data=data, batches=batches, problem=problem)


def _scan_plain(data: Buffer, source: str, advance: Advance) -> tuple[HeaderColumns, CorruptData | None]:
    found = scan_plainly(data, source=source)
    advance(len(data))
    return found


def _scan_fast(data: Buffer, source: str, advance: Advance) -> tuple[HeaderColumns, CorruptData | None]:
    from spark_jobs.kernels.scan import HeaderScan, StopReason, scan_headers  # noqa: PLC0415 — loads numba

    def scan_window(window: tuple[int, int]) -> HeaderScan:
        return scan_headers(data, start=window[0], end=window[1], stop_at_bad_crc=False)

    parts, position = [allocate(0)], 0
    for found in in_order(scan_window, _windows(data)):
        parts.append(found.columns)
        advance(found.stop.position - position)
        position = found.stop.position
        if found.stop.reason is not StopReason.END:  # the file was changed while it was read
            break
    advance(len(data) - position)
    return concatenate(parts), _problem_at(data, position, source)


def _windows(data: Buffer) -> Iterator[tuple[int, int]]:
    """Where whole batches begin and end, some megabytes of them at a time, as far as there are batches."""
    from spark_jobs.kernels.scan import StopReason, walk_boundaries  # noqa: PLC0415 — loads numba

    position, size, reason = 0, _WINDOW, StopReason.TORN
    while position < len(data) and reason in {StopReason.END, StopReason.TORN}:
        end = min(position + size, len(data))
        stop = walk_boundaries(data, start=position, end=end, every=size).stop
        if stop.position > position:
            yield position, stop.position
        elif end == len(data):
            return
        size = _WINDOW if stop.position > position else size * 2  # a batch larger than the window
        position, reason = stop.position, stop.reason


def _problem_at(data: Buffer, position: int, source: str) -> CorruptData | None:
    """The error of the plain scan at the position where the kernel stopped."""
    try:
        next(scan(data, start=position, source=source, check_crc=False), None)
    except CorruptData as error:
        return error
    return None
