"""A stored partition scanned as one log: its segments in order, and which batches a consumer gets."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.log_files import OWN_TOPICS, LogFileKind, parse_file_name
from spark_jobs.kafka.log.log_directory import recovered_names
from spark_jobs.kernels.columns import HeaderColumns, allocate, concatenate
from spark_jobs.reading.in_order import in_order
from spark_jobs.reading.plain import READ_KERNELS, SCAN_KERNELS, is_fast_for
from spark_jobs.reading.segment_scan import ScannedSegment, scan_segment
from spark_jobs.reading.stored_log import PartitionFiles, StoredFile, is_log
from spark_jobs.reading.uploads import not_covered
from spark_jobs.reading.visibility import ServedPart, Visibility, decide, last_offsets, served_parts

OFFSET_DIGITS = 20
Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedPartition:
    """The headers of a partition; `batches` are those of all segments that a broker serves, in order."""

    files: PartitionFiles
    segments: tuple[ScannedSegment, ...]
    served: tuple[ServedPart, ...]
    batches: HeaderColumns
    visibility: Visibility
    covered: tuple[ScannedSegment, ...] = ()
    """Uploads to tiered storage whose offsets are all in others."""
    plainly: bool = False
    """Scanned, and to be read, without compiled code."""

    @property
    def name(self) -> str:
        return self.files.url

    @property
    def is_internal(self) -> bool:
        """Kafka's own topics may restart sequences."""
        return self.files.topic in OWN_TOPICS

    @property
    def segment_of(self) -> npt.NDArray[np.int64]:
        """For each of `batches` the number of its segment."""
        return np.repeat(np.arange(len(self.segments)), self._served_rows)

    @property
    def _served_rows(self) -> list[int]:
        pairs = zip(self.segments, self.served, strict=True)
        return [segment.batches.rows - part.first_row for segment, part in pairs]


def scan_partition(files: PartitionFiles, *, plainly: bool = False) -> ScannedPartition:
    """Scans all segments, several at a time; `plainly` without compiled code."""

    def scan(log: tuple[int, StoredFile]) -> ScannedSegment:
        return scan_segment(log[1].opened(), log[0], plainly=plainly)

    scanned = tuple(in_order(scan, _segments(files, plainly=plainly)))
    segments, covered = not_covered(scanned) if files.is_tier else (scanned, ())
    bases = [segment.base_offset for segment in segments]
    served = served_parts(bases, [segment.batches for segment in segments])
    parts = [
        segment.batches.part(part.first_row, segment.batches.rows)
        for segment, part in zip(segments, served, strict=True)
    ]
    batches = concatenate(parts) if parts else allocate(0)
    start = max(files.log_start_offset, bases[0] if bases and not files.is_segment else 0)
    visibility = decide(batches, log_start_offset=start, least_end=bases[-1] if bases else 0)
    return ScannedPartition(
        files=files,
        segments=segments,
        served=served,
        batches=batches,
        visibility=visibility,
        covered=covered,
        plainly=plainly,
    )


def _segments(files: PartitionFiles, *, plainly: bool) -> list[tuple[int, StoredFile]]:
    """The segments by base offset, as a broker that starts has them (facts §6.1), or all uploads."""
    if files.is_tier:
        return sorted(
            ((int(name[:OFFSET_DIGITS]), file) for name, file in files.files.items()),
            key=lambda pair: (pair[0], pair[1].key),
        )

    def next_offset(name: str, base_offset: int) -> int:
        batches = scan_segment(files.files[name], plainly=plainly).batches
        return int(last_offsets(batches)[-1]) + 1 if batches.rows else base_offset

    recovered = recovered_names(files.files, next_offset)
    named = (
        (parse_file_name(name), files.files[before]) for name, before in recovered.items() if is_log(name)
    )
    found = [(file.offset, stored) for file, stored in named if file and file.kind is LogFileKind.LOG]
    return sorted(found, key=lambda pair: pair[0])


def is_plain(chosen: Iterable[PartitionFiles], *, records: bool) -> bool:
    """Whether so few bytes are read sooner without compiled code."""
    size = sum(files.log_bytes for files in chosen)
    return not is_fast_for(size, records=records, kernels=READ_KERNELS if records else SCAN_KERNELS)
