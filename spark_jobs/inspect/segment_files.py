"""Segments read from disk: every batch's header in columns, and where a broker's recovery would cut the file.

Small files go through the plain scan, which needs nothing compiled; big ones through the kernel. Unlike a
broker's recovery, the scan continues behind a batch with a wrong checksum, so that all batches are shown.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.log.segment import scan
from spark_jobs.kernels.cache import are_compiled
from spark_jobs.kernels.columns import HeaderColumns, allocate, concatenate
from spark_jobs.reading import plain
from spark_jobs.reading.in_order import in_order
from spark_jobs.reading.plain import FAST_FROM, scan_plainly

_WINDOW = 8 * 1024 * 1024
"""Bytes that one thread scans at a time."""
Buffer = bytes | mmap
Advance = Callable[[int], None]


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
        return self.batches.scanned_bytes

    @property
    def valid_bytes(self) -> int:
        return self.batches.valid_bytes


def is_fast_for(size: int, *, records: bool) -> bool:
    """Whether kernels are worth the time to load or compile them for so many bytes."""
    return plain.is_fast_for(size, records=records, kernels=_kernels(records))


def is_compiled_for(*, records: bool) -> bool:
    """Whether the kernels that show batches, or records, have been compiled on this machine."""
    return are_compiled(*_kernels(records))


def _kernels(records: bool) -> tuple[str, ...]:
    return (*plain.SCAN_KERNELS, *(("record_lines.write_lines",) if records else ()))


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
