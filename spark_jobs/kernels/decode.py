"""Decodes batches of a buffer to records, piece by piece within a budget: twin of `kafka.formats.records`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kafka.errors import InvalidRecord, LimitExceeded
from spark_jobs.kafka.formats.compression import DEFAULT_LIMIT
from spark_jobs.kafka.formats.limits import DEFAULT_LIMITS, INT32_MAX, RecordLimits
from spark_jobs.kafka.formats.record_batch import CODEC_MASK, HEADER_SIZE, NO_SEQUENCE, TIMESTAMP_TYPE_FLAG
from spark_jobs.kernels.admission import increment_sequence
from spark_jobs.kernels.codecs import DEFAULT_BUDGET, PayloadProblem, Payloads, decompress_batches
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import Bytes, as_bytes
from spark_jobs.kernels.record import (
    MISSING_RECORD,
    NEGATIVE_COUNT,
    NONE,
    SMALLEST_RECORD,
    TOO_MANY_HEADERS,
    TRAILING_BYTES,
    ParsedRecord,
    RecordProblem,
    parse_record,
)
from spark_jobs.kernels.record_buffers import MAX_BYTES, FoundRecords, RecordRows, Totals, allocate_rows


class RecordSections(NamedTuple):
    """One row per batch: its records are the arena's bytes from `start` to `end`."""

    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    base_offset: npt.NDArray[np.int64]
    base_timestamp: npt.NDArray[np.int64]
    max_timestamp: npt.NDArray[np.int64]
    is_log_append_time: npt.NDArray[np.bool_]
    base_sequence: npt.NDArray[np.int32]
    record_count: npt.NDArray[np.int32]

    @property
    def rows(self) -> int:
        return self.start.size


def sections_of(
    headers: HeaderColumns, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]
) -> RecordSections:
    """The sections of v2 batches whose records are at `start` to `end`; copies of the columns."""
    return RecordSections(
        start=start.copy(),
        end=end.copy(),
        base_offset=headers.base_offset.copy(),
        base_timestamp=headers.base_timestamp.copy(),
        max_timestamp=headers.max_timestamp.copy(),
        is_log_append_time=headers.attributes & TIMESTAMP_TYPE_FLAG != 0,
        base_sequence=headers.base_sequence.copy(),
        record_count=headers.record_count.copy(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProblem:
    """Why the records of batch `batch` were left out; `position` counts from where they begin."""

    batch: int
    problem: RecordProblem
    position: int

    def error(self, *, source: str = "<bytes>", origin: int = 0, in_place: bool = True) -> InvalidRecord:
        """The error to raise; `origin` is where the payload begins, `in_place` whether it is uncompressed."""
        found = self.problem.name.lower().replace("_", " ")
        return InvalidRecord(
            source=source,
            position=origin + self.position if in_place else origin,
            expected="the records that the batch claims",
            found=found if in_place else f"{found} at byte {self.position} of its decompressed records",
        )


@helper
def _put_row(
    rows: RecordRows, row: int, record: ParsedRecord, sections: RecordSections, batch: int, number: int
) -> None:
    """Writes the numbers of record `row` of batch `batch`, whose number in the call is `number`."""
    base_sequence = sections.base_sequence[batch]
    rows.batch[row] = number
    rows.offset[row] = sections.base_offset[batch] + record.offset_delta
    if sections.is_log_append_time[batch]:
        rows.timestamp[row] = sections.max_timestamp[batch]
    else:
        rows.timestamp[row] = sections.base_timestamp[batch] + record.timestamp_delta
    has_sequence = base_sequence >= 0
    rows.sequence[row] = (
        increment_sequence(base_sequence, record.offset_delta) if has_sequence else NO_SEQUENCE
    )
    rows.key_start[row], rows.key_size[row] = record.key_start, record.key_size
    rows.value_start[row], rows.value_size[row] = record.value_start, record.value_size
    rows.headers_start[row], rows.header_count[row] = record.headers_start, record.header_count


@helper
def _read_batch(
    arena: Bytes,
    sections: RecordSections,
    batch: int,
    number: int,
    most_headers: int,
    rows: RecordRows,
    row: int,
) -> tuple[int, int, Totals]:
    """(problem, its position, totals of the batch if there is none); writes its records from `row` on."""
    position, end = sections.start[batch], sections.end[batch]
    count = sections.record_count[batch]
    key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes = 0, 0, 0, 0, 0
    problem = NEGATIVE_COUNT if count < 0 else NONE
    for index in range(count):
        if position == end:
            problem = MISSING_RECORD
            break
        record = parse_record(arena, position, end)
        problem, position = record.problem, record.position
        if problem == NONE and record.header_count > most_headers:
            problem, position = TOO_MANY_HEADERS, record.headers_start
        if problem != NONE:
            break
        _put_row(rows, row + index, record, sections, batch, number)
        key_bytes += max(record.key_size, 0)
        value_bytes += max(record.value_size, 0)
        headers += record.header_count
        header_key_bytes += record.header_key_bytes
        header_value_bytes += record.header_value_bytes
    if problem == NONE and position != end:
        problem = TRAILING_BYTES
    held = Totals(count, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes)
    return problem, position, held


@kernel
def _read(
    arena: Bytes,
    sections: RecordSections,
    first_batch: int,
    most_headers: int,
    problems: npt.NDArray[np.int8],
    positions: npt.NDArray[np.int64],
    rows: RecordRows,
) -> Totals:
    """Totals of all valid batches; writes each batch's problem and its position from the batch's start."""
    records, key_bytes, value_bytes = 0, 0, 0
    headers, header_key_bytes, header_value_bytes = 0, 0, 0
    for batch in range(sections.start.size):
        problems[batch], positions[batch] = NONE, 0
        if sections.record_count[batch] == 0:  # a broker ignores any payload of an empty batch
            continue
        problem, position, held = _read_batch(
            arena, sections, batch, first_batch + batch, most_headers, rows, records
        )
        problems[batch], positions[batch] = problem, position - sections.start[batch]
        if problem == NONE:
            records += held.records
            key_bytes += held.key_bytes
            value_bytes += held.value_bytes
            headers += held.headers
            header_key_bytes += held.header_key_bytes
            header_value_bytes += held.header_value_bytes
    return Totals(records, key_bytes, value_bytes, headers, header_key_bytes, header_value_bytes)


def decode(
    arena: Bytes, sections: RecordSections, *, first_batch: int = 0, most_headers: int = INT32_MAX
) -> tuple[FoundRecords, tuple[BatchProblem, ...]]:
    """The records of all valid batches in order, and the problems of the others.

    The column `batch` counts from `first_batch`, problems count from 0. A record may have `most_headers`
    headers.
    """
    data = as_bytes(arena)
    problems = np.empty(sections.rows, dtype=np.int8)
    positions = np.empty(sections.rows, dtype=np.int64)
    rows = allocate_rows(_most_records(sections))
    totals = _read(data, sections, first_batch, most_headers, problems, positions, rows)
    _check_size(max(totals))
    bad = (
        BatchProblem(batch=int(batch), problem=RecordProblem(problems[batch]), position=int(positions[batch]))
        for batch in np.flatnonzero(problems)
    )
    return FoundRecords(data, rows.first(totals.records), totals), tuple(bad)


def _most_records(sections: RecordSections) -> int:
    """The number of records that are claimed, or that the bytes can hold if that is less."""
    fitting = (sections.end - sections.start) // SMALLEST_RECORD
    return int(np.minimum(np.maximum(sections.record_count, 0), fitting).sum())


def _check_size(found: int) -> None:
    if found > MAX_BYTES:
        raise LimitExceeded(
            position=0, expected=f"at most {MAX_BYTES} bytes of records in one call", found=found
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBatches:
    """The records of the batches `first` to `last` (excluded), except for batches with a problem.

    The column `batch` and the problems use the indexes of the headers of the whole call.
    """

    first: int
    last: int
    found: FoundRecords
    problems: tuple[PayloadProblem, ...]

    @property
    def records(self) -> pa.RecordBatch:
        """The records as an Arrow record batch."""
        return self.found.records


def decode_batches(
    buffer: Any,
    headers: HeaderColumns,
    *,
    limit: int = DEFAULT_LIMIT,
    budget: int = DEFAULT_BUDGET,
    source: str = "<bytes>",
    origin: int = 0,
    limits: RecordLimits = DEFAULT_LIMITS,
) -> Iterator[DecodedBatches]:
    """The records of v2 batches in order, in pieces of about `budget` bytes.

    A piece has at most half as much again, and one batch more. `headers` are from a scan of `buffer`, which
    begins at byte `origin` of `source`; their checksums have been checked before. `limits` bound the number
    of records and headers, `limit` the number of bytes.
    """
    first, share = 0, budget
    while first < headers.rows:
        rest = headers.part(first, headers.rows)
        payloads = decompress_batches(buffer, rest, limit=limit, budget=share, source=source, origin=origin)
        yield _decode(payloads, rest, first, source, origin, limits)
        first += payloads.batches
        share = _equal_share(rest, payloads, budget)


def count_without_key(
    buffer: Any, headers: HeaderColumns, *, origin: int = 0, limits: RecordLimits = DEFAULT_LIMITS
) -> npt.NDArray[np.int32]:
    """The number of records without a key for every v2 batch; 0 if they cannot be read."""
    counts = np.zeros(headers.rows, dtype=np.int32)
    for decoded in decode_batches(
        buffer, headers, limit=limits.decompressed_bytes, origin=origin, limits=limits
    ):
        rows = decoded.found.rows
        counts += np.bincount(rows.batch[rows.key_size < 0], minlength=headers.rows).astype(np.int32)
    return counts


def _equal_share(headers: HeaderColumns, payloads: Payloads, budget: int) -> int:
    """The size of the next piece such that no small piece is left at the end, which would cost as much.

    The remaining batches are expected to compress like those before.
    """
    done = int(headers.size[: payloads.batches].sum())
    left = int(headers.size[payloads.batches :].sum())
    expected = int((payloads.end - payloads.start).sum()) * left // done
    pieces = (expected + budget // 2) // max(budget, 1)
    return expected // pieces if pieces > 1 else budget + budget // 2


def _decode(
    payloads: Payloads, headers: HeaderColumns, first: int, source: str, origin: int, limits: RecordLimits
) -> DecodedBatches:
    part = headers.part(0, payloads.batches)
    sections = sections_of(part, payloads.start, payloads.end)
    unreadable = {problem.batch: problem for problem in payloads.problems}
    unreadable |= {each.batch: each for each in _too_many(part, source, origin, limits.records_per_batch)}
    sections.record_count[list(unreadable)] = 0
    found, wrong = decode(payloads.arena, sections, first_batch=first, most_headers=limits.headers_per_record)
    invalid = (_invalid(problem, part, source, origin) for problem in wrong)
    problems = sorted((*unreadable.values(), *invalid), key=lambda problem: problem.batch)
    return DecodedBatches(
        first=first,
        last=first + payloads.batches,
        found=found,
        problems=tuple(
            PayloadProblem(batch=first + problem.batch, error=problem.error) for problem in problems
        ),
    )


def _too_many(headers: HeaderColumns, source: str, origin: int, most: int) -> Iterator[PayloadProblem]:
    """Problems of the batches that claim more records than a batch may have."""
    for batch in np.flatnonzero(headers.record_count > most).tolist():
        error = LimitExceeded(
            source=source,
            position=origin + int(headers.position[batch]) + HEADER_SIZE,
            expected=f"at most {most} records in a batch",
            found=int(headers.record_count[batch]),
        )
        yield PayloadProblem(batch=batch, error=error)


def _invalid(problem: BatchProblem, headers: HeaderColumns, source: str, origin: int) -> PayloadProblem:
    position = origin + int(headers.position[problem.batch]) + HEADER_SIZE
    in_place = not headers.attributes[problem.batch] & CODEC_MASK
    error = problem.error(source=source, origin=position, in_place=in_place)
    return PayloadProblem(batch=problem.batch, error=error)
