"""Which batches are read: chosen on headers, then divided into pieces that any thread or task can read."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.record_batch import CODEC_MASK, MAGIC_V2, NO_TIMESTAMP
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.reading.contracts import LOG_RECORDS
from spark_jobs.reading.damage import check_partition
from spark_jobs.reading.errors import UnknownOption
from spark_jobs.reading.isolation import Isolation
from spark_jobs.reading.partition_scan import ScannedPartition
from spark_jobs.reading.segment_scan import ScannedSegment
from spark_jobs.reading.stored_log import StoredFile
from spark_jobs.reading.visibility import last_offsets

PIECE_BYTES = 8 * 2**20
"""About how many bytes of records one piece has."""
_LIKELY_RATIO = 4
"""Assumed bytes of records per compressed byte."""
_GAP_BYTES = 256 * 2**10
"""Unwanted bytes between batches that are read rather than skipped."""
Flags = npt.NDArray[np.bool_]
Bound = int | datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Numbers from `first` on and below `end`; None where there is no bound."""

    first: int | None = None
    end: int | None = None

    @property
    def is_open(self) -> bool:
        return self.first is None and self.end is None

    def contains(self, numbers: npt.NDArray[np.int64]) -> Flags:
        found: Flags = np.full(numbers.shape, True)
        if self.first is not None:
            found &= numbers >= self.first
        if self.end is not None:
            found &= numbers < self.end
        return found

    def narrowed(self, *, first: int | None = None, end: int | None = None) -> "Span":
        """What both allow."""
        firsts = [bound for bound in (self.first, first) if bound is not None]
        ends = [bound for bound in (self.end, end) if bound is not None]
        return Span(first=max(firsts, default=None), end=min(ends, default=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a reader asks for: the isolation level, columns, and ranges of offsets and timestamps in ms."""

    isolation: Isolation = Isolation.READ_COMMITTED
    columns: tuple[str, ...] = tuple(LOG_RECORDS.schema.names)
    offsets: Span = Span()
    timestamps: Span = Span()

    @classmethod
    def of(cls, *, isolation: str, columns: Iterable[str] | None, offsets: Any, timestamps: Any) -> Self:
        """From the arguments of the API; a name that does not exist is an error that lists those that do."""
        return cls(
            isolation=isolation_of(isolation),
            columns=columns_of(columns, LOG_RECORDS.schema.names),
            offsets=span_of(offsets, "offsets"),
            timestamps=span_of(timestamps, "timestamps"),
        )


def isolation_of(name: str) -> Isolation:
    """The isolation level of this name."""
    try:
        return Isolation(name)
    except ValueError:
        raise UnknownOption(f"isolation {name!r}: expected {' or '.join(Isolation)}") from None


def columns_of(names: Iterable[str] | None, known: list[str]) -> tuple[str, ...]:
    """The chosen columns in their order, all if None; not any is an error."""
    if names is None:
        return tuple(known)
    if isinstance(names, str):
        raise UnknownOption(f"columns {names!r}: expected a list of names, not one text")
    chosen = tuple(dict.fromkeys(names))
    unknown = [name for name in chosen if name not in known]
    if unknown or not chosen:
        raise UnknownOption(f"columns {', '.join(unknown) or 'none'}: expected some of {', '.join(known)}")
    return chosen


def span_of(bounds: Any, name: str) -> Span:
    """The range of a pair (first, end); None is no bound."""
    if bounds is None:
        return Span()
    try:
        first, end = bounds
        return Span(first=_number(first), end=_number(end))
    except (TypeError, ValueError):
        kinds = "offsets" if name == "offsets" else "datetimes or milliseconds since 1970"
        raise UnknownOption(
            f"{name} {bounds!r}: expected a pair (first, end) of {kinds}, None for no bound"
        ) from None


def _number(bound: Bound) -> int | None:
    if isinstance(bound, datetime):
        aware = bound if bound.tzinfo is not None else bound.replace(tzinfo=UTC)
        since = aware - datetime(1970, 1, 1, tzinfo=UTC)
        # Records have whole milliseconds, so a bound between two of them is the later one.
        return -(-(since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) // 1000)
    if bound is None or (isinstance(bound, int) and not isinstance(bound, bool)):
        return bound
    raise TypeError(bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRead:
    """Batches of one file that are read together: those in `start` to `end` that `chosen` has a bit for.

    `rows` and `checksum` identify the batches that were planned, so that a file that was replaced in between
    is noticed. Records below `first_offset` are not served from this segment; `offsets` are
    those of the batches. With
    `plainly` it is read without compiled code.
    """

    topic: str | None
    partition: int | None
    file: StoredFile
    start: int
    end: int
    rows: int
    checksum: int
    chosen: bytes | None
    first_offset: int
    offsets: Span
    plainly: bool = False

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def mask(self) -> Flags:
        """Which batches of the range are read."""
        if self.chosen is None:
            return np.full(self.rows, True)
        bits = np.frombuffer(self.chosen, dtype=np.uint8)
        return np.unpackbits(bits, count=self.rows).astype(np.bool_)


def checksum_of(headers: HeaderColumns) -> int:
    """One number for the checksums of many batches."""
    return crc32(np.ascontiguousarray(headers.crc).data)


def plan_partition(scanned: ScannedPartition, wanted: ReadOptions) -> Iterator[PlannedRead]:
    """The pieces of a partition in offset order; raises where its records could not be trusted."""
    batches = scanned.batches
    concerned = _in_range(batches, wanted)
    check_partition(scanned, wanted.isolation, concerned)
    chosen = concerned & scanned.visibility.visible(batches, wanted.isolation)
    first = 0
    for segment, part in zip(scanned.segments, scanned.served, strict=True):
        rows = segment.batches.rows - part.first_row
        shown = np.zeros(segment.batches.rows, dtype=np.bool_)
        shown[part.first_row :] = chosen[first : first + rows]
        first_offset = max(part.first_offset, scanned.visibility.log_start_offset)
        yield from _pieces(scanned, segment, shown, first_offset)
        first += rows


def _in_range(batches: HeaderColumns, wanted: ReadOptions) -> Flags:
    """Batches that may have records in the ranges; a wrapper of magic 0 or 1 gives only its last offset."""
    is_legacy = batches.magic < MAGIC_V2
    found: Flags = np.full(batches.rows, True)
    if wanted.offsets.first is not None:
        found &= last_offsets(batches) >= wanted.offsets.first
    if wanted.offsets.end is not None:
        found &= is_legacy | (batches.base_offset < wanted.offsets.end)
    if wanted.timestamps.first is not None:
        known = ~is_legacy & (batches.max_timestamp != NO_TIMESTAMP)
        found &= ~known | (batches.max_timestamp >= wanted.timestamps.first)
    return found


def _pieces(
    scanned: ScannedPartition, segment: ScannedSegment, shown: Flags, first_offset: int
) -> Iterator[PlannedRead]:
    batches, rows = segment.batches, np.flatnonzero(shown)
    for part in _parts(batches, rows):
        first, last = int(part[0]), int(part[-1]) + 1
        span, mask = batches.part(first, last), shown[first:last]
        yield PlannedRead(
            topic=scanned.files.topic,
            partition=scanned.files.partition,
            file=segment.file,
            start=int(span.position[0]),
            end=int(span.position[-1] + span.size[-1]),
            rows=last - first,
            checksum=checksum_of(span),
            chosen=None if mask.all() else np.packbits(mask).tobytes(),
            first_offset=first_offset,
            offsets=Span(first=_first_of(span), end=int(last_offsets(span).max()) + 1),
            plainly=scanned.plainly,
        )


def _first_of(span: HeaderColumns) -> int | None:
    """The first offset of the batches; unknown in magic 0 and 1, where a wrapper gives only its last."""
    return int(span.base_offset.min()) if (span.magic >= MAGIC_V2).all() else None


def _parts(batches: HeaderColumns, rows: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Neighbouring batches of one format, about `PIECE_BYTES` of records, without long gaps in between."""
    if not rows.size:
        return []
    is_compressed = batches.attributes[rows] & CODEC_MASK != 0
    weight = np.cumsum(batches.size[rows] * np.where(is_compressed, _LIKELY_RATIO, 1)) // PIECE_BYTES
    end = batches.position[rows] + batches.size[rows]
    is_apart = batches.position[rows][1:] - end[:-1] > _GAP_BYTES
    is_other = np.diff(batches.magic[rows] < MAGIC_V2)
    return np.split(rows, np.flatnonzero(np.diff(weight).astype(np.bool_) | is_apart | is_other) + 1)
