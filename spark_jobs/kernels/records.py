"""Records of many decompressed batches in one call: the twin of `protocol.records`.

They are read strictly, and it is noted where everything stands. A batch with a problem contributes nothing;
what is wrong with it, and where, comes back beside the records.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.found_records import FoundRecords
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
from spark_jobs.kernels.record_buffers import MAX_BYTES, RecordRows, Totals, allocate_rows
from spark_jobs.kernels.sections import RecordSections
from spark_jobs.kernels.sequences import increment_sequence
from spark_jobs.protocol.errors import InvalidRecord, LimitExceeded
from spark_jobs.protocol.limits import INT32_MAX
from spark_jobs.protocol.record_batch import NO_SEQUENCE


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
    """What record `row` is: of batch `batch`, which counts as `number` outside."""
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
    """(problem, its position, what the batch holds if there is none); its records are put from `row` on."""
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
    """What all good batches hold; every batch gets its problem and, counted from its start, the position."""
    records, key_bytes, value_bytes = 0, 0, 0
    headers, header_key_bytes, header_value_bytes = 0, 0, 0
    for batch in range(sections.start.size):
        problems[batch], positions[batch] = NONE, 0
        if sections.record_count[batch] == 0:  # whatever bytes are there, a broker does not look at them
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
    """The records of all batches whose records are right, in order, and what is wrong with the others.

    The column `batch` counts from `first_batch`, problems count from 0. A record may have `most_headers`.
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
    """As many as are claimed, or as the bytes could hold where that is less."""
    fitting = (sections.end - sections.start) // SMALLEST_RECORD
    return int(np.minimum(np.maximum(sections.record_count, 0), fitting).sum())


def _check_size(found: int) -> None:
    if found > MAX_BYTES:
        raise LimitExceeded(
            position=0, expected=f"at most {MAX_BYTES} bytes of records in one call", found=found
        )
