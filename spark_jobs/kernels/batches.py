"""From batches in a buffer to records: decompressed and decoded piece by piece, within a budget."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.decompress import (
    DEFAULT_BUDGET,
    PayloadProblem,
    Payloads,
    decompress_batches,
)
from spark_jobs.kernels.found_records import FoundRecords
from spark_jobs.kernels.records import BatchProblem, decode
from spark_jobs.kernels.sections import sections_of
from spark_jobs.protocol.compression import DEFAULT_LIMIT
from spark_jobs.protocol.errors import LimitExceeded
from spark_jobs.protocol.limits import DEFAULT_LIMITS, Limits
from spark_jobs.protocol.record_batch import CODEC_MASK, HEADER_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedBatches:
    """The records of the batches `first` to `last` (excluded), except for those that have a problem.

    Both the column `batch` and the problems count batches as the headers of the whole call do.
    """

    first: int
    last: int
    found: FoundRecords
    problems: tuple[PayloadProblem, ...]

    @property
    def records(self) -> pa.RecordBatch:
        """As Arrow."""
        return self.found.records


def decode_batches(
    buffer: Any,
    headers: HeaderColumns,
    *,
    limit: int = DEFAULT_LIMIT,
    budget: int = DEFAULT_BUDGET,
    source: str = "<bytes>",
    origin: int = 0,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[DecodedBatches]:
    """The records of v2 batches in order, in pieces of about `budget` bytes.

    A piece has at most half as much again, and one batch more. `headers` are of a scan of `buffer`, which
    begins at byte `origin` of `source`; their checksums have been checked before. `limits` bound how many
    records and headers there may be, `limit` how many bytes.
    """
    first, share = 0, budget
    while first < headers.rows:
        rest = headers.part(first, headers.rows)
        payloads = decompress_batches(buffer, rest, limit=limit, budget=share, source=source, origin=origin)
        yield _decode(payloads, rest, first, source, origin, limits)
        first += payloads.batches
        share = _equal_share(rest, payloads, budget)


def count_without_key(
    buffer: Any, headers: HeaderColumns, *, origin: int = 0, limits: Limits = DEFAULT_LIMITS
) -> npt.NDArray[np.int32]:
    """For every v2 batch how many of its records have no key; 0 if they cannot be read."""
    counts = np.zeros(headers.rows, dtype=np.int32)
    for decoded in decode_batches(
        buffer, headers, limit=limits.decompressed_bytes, origin=origin, limits=limits
    ):
        rows = decoded.found.rows
        counts += np.bincount(rows.batch[rows.key_size < 0], minlength=headers.rows).astype(np.int32)
    return counts


def _equal_share(headers: HeaderColumns, payloads: Payloads, budget: int) -> int:
    """How much the next piece may hold so that no small rest is left at the end, which costs as much.

    What is yet to come is expected to be compressed like what came.
    """
    done = int(headers.size[: payloads.batches].sum())
    left = int(headers.size[payloads.batches :].sum())
    expected = int((payloads.end - payloads.start).sum()) * left // done
    pieces = (expected + budget // 2) // max(budget, 1)
    return expected // pieces if pieces > 1 else budget + budget // 2


def _decode(
    payloads: Payloads, headers: HeaderColumns, first: int, source: str, origin: int, limits: Limits
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
    """Batches that claim more records than a batch may have."""
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
