"""Scans a stored segment window by window: its headers as columns, and what stopped the scan."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, LOG_OVERHEAD
from spark_jobs.kernels.columns import HeaderColumns, allocate, concatenate
from spark_jobs.reading.plain import scan_plainly
from spark_jobs.reading.stored_log import StoredFile

if TYPE_CHECKING:
    from spark_jobs.kernels.scan import StopReason

WINDOW_BYTES = 8 * 2**20
_LENGTH = Struct(">8xi")
_MAGIC = Struct(">16xb")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedSegment:
    """One file of batches; `problem` is why the scan did not reach its end."""

    file: StoredFile
    base_offset: int
    batches: HeaderColumns
    problem: CorruptData | None

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def scanned_bytes(self) -> int:
        return self.batches.scanned_bytes

    @property
    def valid_bytes(self) -> int:
        return self.batches.valid_bytes


def scan_segment(file: StoredFile, base_offset: int = 0, *, plainly: bool = False) -> ScannedSegment:
    """All headers with their checksums checked; a wrong checksum does not end the scan."""
    parts, problem = [allocate(0)], None
    for columns, problem in _whole(file) if plainly else _windows(file):  # noqa: B007 — the last one counts
        parts.append(columns)
    return ScannedSegment(file=file, base_offset=base_offset, batches=concatenate(parts), problem=problem)


def _whole(file: StoredFile) -> Iterator[tuple[HeaderColumns, CorruptData | None]]:
    """The headers without compiled code; of a copy, for an error keeps the bytes that it was found in."""
    if file.size:
        with file.viewed(0, file.size) as data:
            copy = bytes(data)
        yield scan_plainly(copy, source=file.url)


def _windows(file: StoredFile) -> Iterator[tuple[HeaderColumns, CorruptData | None]]:
    from spark_jobs.kernels.scan import StopReason, scan_headers  # noqa: PLC0415 — loads numba

    position, size = 0, WINDOW_BYTES
    while position < file.size:
        end = min(position + size, file.size)
        with file.viewed(position, end) as data:
            found = scan_headers(data, stop_at_bad_crc=False)
            head = bytes(data[found.stop.position : found.stop.position + HEADER_SIZE])
        found.columns.position[:] += position
        position += found.stop.position
        if found.stop.reason is StopReason.END:
            yield found.columns, None
        elif found.stop.reason is StopReason.TORN and end < file.size:
            yield found.columns, None
            size = max(WINDOW_BYTES, _claimed(head))  # a batch larger than the window
        else:
            yield found.columns, _problem(file, position, found.stop.reason, head)
            return


def _claimed(head: bytes) -> int:
    return LOG_OVERHEAD + max(_LENGTH.unpack_from(head)[0], 0) if len(head) >= _LENGTH.size else 0


def _problem(file: StoredFile, position: int, reason: "StopReason", head: bytes) -> CorruptData:
    """The error at a position where no batch begins, as the plain scan of a segment words it."""
    from spark_jobs.kernels.scan import ERROR_OF, StopReason  # noqa: PLC0415 — loads numba

    rest, length = file.size - position, _LENGTH.unpack_from(head)[0] if len(head) >= _LENGTH.size else 0
    if reason is StopReason.ZERO_FILLED and not _is_zero(file, position):
        reason = StopReason.BAD_LENGTH
    expected, found = {
        StopReason.TORN: (f"{LOG_OVERHEAD + length} bytes", f"{rest} to the end"),
        StopReason.ZERO_FILLED: ("a batch or the end", f"{rest} bytes of zeros"),
        StopReason.BAD_LENGTH: ("the length of a batch", str(length)),
        StopReason.BAD_MAGIC: ("0, 1 or 2", str(_MAGIC.unpack_from(head.ljust(_MAGIC.size, b"\0"))[0])),
    }[reason]
    return ERROR_OF[reason](source=file.url, position=position, expected=expected, found=found)


def _is_zero(file: StoredFile, position: int) -> bool:
    """Whether all bytes from `position` on are zero."""
    for start in range(position, file.size, WINDOW_BYTES):
        with file.viewed(start, min(start + WINDOW_BYTES, file.size)) as data:
            if np.frombuffer(data, dtype=np.uint8).any():
                return False
    return True
