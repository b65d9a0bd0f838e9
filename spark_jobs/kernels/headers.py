"""Scan of batch headers into columns (facts §1.2-1.3): the twin of `protocol.segment.scan`.

Memory is bounded by the capacity of a chunk, not by the buffer: `scan_chunk` stops when its columns are full,
and the next call continues where it stopped.
"""

from dataclasses import dataclass
from typing import Any

from spark_jobs.kernels.columns import HeaderColumns, allocate, concatenate
from spark_jobs.kernels.compile import kernel
from spark_jobs.kernels.control import resolve_compressed
from spark_jobs.kernels.crc import library_address
from spark_jobs.kernels.entry import check_entry, has_right_crc, write_entry
from spark_jobs.kernels.memory import Bytes, as_bytes
from spark_jobs.kernels.stop import BAD_CRC, FULL, GO_ON, ScanStop, StopReason

FIRST_CAPACITY, LARGEST_CAPACITY = 1 << 12, 1 << 20
"""Rows of the first and of later chunks: small files stay cheap, big ones need few chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderScan:
    """The headers found, and where and why the scan stopped."""

    columns: HeaderColumns
    stop: ScanStop


@kernel
def _scan(
    buffer: Bytes,
    start: int,
    end: int,
    library: int,
    check_crc: bool,
    stop_at_bad_crc: bool,
    check_magic: bool,
    rows: HeaderColumns,
) -> tuple[int, int, int]:
    """(rows written, position, why it stopped)."""
    position, row, capacity = start, 0, rows.position.size
    while True:
        reason, size = check_entry(buffer, position, end, check_magic)
        if reason == GO_ON and row == capacity:
            reason = FULL
        if reason != GO_ON:
            return row, position, reason
        crc_ok = not check_crc or has_right_crc(library, buffer, position, size)
        if stop_at_bad_crc and not crc_ok:
            return row, position, BAD_CRC
        write_entry(rows, row, buffer, position, size, crc_ok)
        row += 1
        position += size


def scan_chunk(
    buffer: Any,
    *,
    start: int = 0,
    end: int | None = None,
    capacity: int,
    check_crc: bool = True,
    stop_at_bad_crc: bool = True,
    check_magic: bool = True,
) -> HeaderScan:
    """At most `capacity` headers of `buffer[start:end]`; `FULL` says that there is at least one more.

    A wrong checksum ends the scan there, as a broker's recovery does; with `stop_at_bad_crc` false it is only
    marked in `crc_ok`, and the length that the damaged header claims is trusted for the way on.
    """
    data, rows = as_bytes(buffer), allocate(capacity)
    count, position, reason = _scan(
        data,
        start,
        data.size if end is None else end,
        library_address(),
        check_crc,
        stop_at_bad_crc,
        check_magic,
        rows,
    )
    found = rows.part(0, count)
    resolve_compressed(data, found)
    return HeaderScan(columns=found, stop=ScanStop(position=position, reason=StopReason(reason)))


def scan_headers(
    buffer: Any,
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    stop_at_bad_crc: bool = True,
    check_magic: bool = True,
) -> HeaderScan:
    """All headers of `buffer[start:end]`, as `scan_chunk` finds them."""
    parts: list[HeaderColumns] = []
    stop, capacity = ScanStop(position=start, reason=StopReason.FULL), FIRST_CAPACITY
    while stop.reason is StopReason.FULL:
        chunk = scan_chunk(
            buffer,
            start=stop.position,
            end=end,
            capacity=capacity,
            check_crc=check_crc,
            stop_at_bad_crc=stop_at_bad_crc,
            check_magic=check_magic,
        )
        parts.append(chunk.columns)
        stop, capacity = chunk.stop, min(capacity * 8, LARGEST_CAPACITY)
    return HeaderScan(columns=concatenate(parts), stop=stop)
