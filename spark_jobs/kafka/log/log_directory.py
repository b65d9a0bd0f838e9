"""The files of one partition: interrupted swaps finished before they are read (facts §6.1)."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from spark_jobs.kafka.formats.log_files import (
    FileSuffix,
    LogFile,
    LogFileKind,
    parse_file_name,
    segment_file_name,
)
from spark_jobs.kafka.log.segment import scan_result

NextOffset = Callable[[str, int], int]
"""A function from a segment's file name and base offset to the offset after its last batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """A segment's bytes; None for a missing file, empty bytes for an empty one."""

    base_offset: int
    log: bytes
    index: bytes | None
    time_index: bytes | None
    txn_index: bytes | None


def recovered_files(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """`files` once interrupted deletions, cleanings and swaps are undone or finished.

    Files that were being deleted or cleaned are removed, and so is a swap that began after the oldest
    unfinished cleaning. Every other swap replaces the files that it covers.
    """
    names = recovered_names(files, lambda name, offset: _next_offset(files[name], offset))
    return {name: files[before] for name, before in names.items()}


def recovered_names(names: Collection[str], next_offset: NextOffset) -> dict[str, str]:
    """The same for names alone: each remaining name, and the name that its file has now."""
    named = [(name, file) for name in names if (file := parse_file_name(name)) is not None]
    cleaned = [file.offset for _, file in named if file.suffix is FileSuffix.CLEANED]
    swaps = {
        name: file
        for name, file in named
        if file.suffix is FileSuffix.SWAP and file.offset < min(cleaned, default=file.offset + 1)
    }
    start, end = _covered(swaps, next_offset)
    temporary = {name for name, file in named if file.suffix is not None}
    covered = {name for name, file in named if file.suffix is None and start <= file.offset < end}
    kept = {name: name for name in names if name not in temporary | covered}
    return kept | {segment_file_name(file.offset, file.kind): name for name, file in swaps.items()}


def _covered(swaps: Mapping[str, LogFile], next_offset: NextOffset) -> tuple[int, int]:
    """Offsets [start, end) that the swapped segments cover."""
    logs = [(name, file) for name, file in swaps.items() if file.kind is LogFileKind.LOG]
    ends = [next_offset(name, file.offset) for name, file in logs]
    return min((file.offset for _, file in logs), default=0), max(ends, default=0)


def _next_offset(log: bytes, base_offset: int) -> int:
    batches = scan_result(log, check_crc=False).batches
    return batches[-1].header.next_offset if batches else base_offset


def segments_in(files: Mapping[str, bytes]) -> list[SegmentFiles]:
    """The segments in offset order; index files without a `.log` are left out, as a broker deletes them."""
    return [
        SegmentFiles(
            base_offset=offset,
            log=files[segment_file_name(offset, LogFileKind.LOG)],
            index=files.get(segment_file_name(offset, LogFileKind.INDEX)),
            time_index=files.get(segment_file_name(offset, LogFileKind.TIME_INDEX)),
            txn_index=files.get(segment_file_name(offset, LogFileKind.TXN_INDEX)),
        )
        for offset in sorted(_offsets(files, LogFileKind.LOG))
    ]


def snapshots_in(files: Mapping[str, bytes]) -> dict[int, bytes]:
    """The snapshots by offset."""
    kind = LogFileKind.SNAPSHOT
    return {offset: files[segment_file_name(offset, kind)] for offset in sorted(_offsets(files, kind))}


def _offsets(files: Iterable[str], kind: LogFileKind) -> set[int]:
    parsed = (parse_file_name(name) for name in files)
    return {file.offset for file in parsed if file is not None and file.kind is kind and file.suffix is None}
