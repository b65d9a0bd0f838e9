"""Remarks on segments and logs: sentences on what a broker would reject, misread or wait for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.errors import CorruptData, TornBatch, ZeroFilledTail
from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG, NO_SEQUENCE
from spark_jobs.kafka.producers.sequence import MAX_SEQUENCE
from spark_jobs.kernels.columns import UNREADABLE_CONTROL_TYPE, HeaderColumns
from spark_jobs.reading.batch_labels import last_sequences
from spark_jobs.reading.visibility import Visibility, last_offsets

_SHOWN = 3
"""Examples of one kind that are named; the rest is counted."""


class Level(StrEnum):
    """The severity of a remark."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One sentence about something unusual."""

    level: Level
    text: str


def note(text: str) -> Remark:
    return Remark(level=Level.NOTE, text=text)


def warning(text: str) -> Remark:
    return Remark(level=Level.WARNING, text=text)


def error(text: str) -> Remark:
    return Remark(level=Level.ERROR, text=text)


def plural(count: int, noun: str) -> str:
    """`3 batches`, `1 batch`: a count that reads as a sentence does."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 'x', 's')) else 's'}"


class SegmentHeaders(Protocol):
    """A scanned segment: its headers, its bytes, and why the scan did not reach its end."""

    @property
    def batches(self) -> HeaderColumns: ...

    @property
    def problem(self) -> CorruptData | None: ...

    @property
    def size(self) -> int: ...

    @property
    def scanned_bytes(self) -> int: ...

    @property
    def valid_bytes(self) -> int: ...


def segment_remarks(segment: SegmentHeaders) -> Iterator[Remark]:
    """What is wrong with a file of batches."""
    yield from _tail(segment)
    yield from _checksums(segment)
    yield from _unreadable_markers(segment)


def _tail(segment: SegmentHeaders) -> Iterator[Remark]:
    problem, where = segment.problem, f"at byte {segment.scanned_bytes:,}"
    left = plural(segment.size - segment.scanned_bytes, "trailing byte")
    if isinstance(problem, ZeroFilledTail):
        yield warning(f"zero-filled tail {where}: {left}, preallocated and never written")
    elif isinstance(problem, TornBatch):
        yield warning(f"torn tail {where}: {left} that a recovery would cut off ({problem})")
    elif problem is not None:
        yield error(f"no batch {where}, {left} not read: {problem}")


def _checksums(segment: SegmentHeaders) -> Iterator[Remark]:
    wrong = np.flatnonzero(~segment.batches.crc_ok)
    if wrong.size:
        where = _examples(f"{segment.batches.position[row]:,}" for row in wrong[:_SHOWN])
        yield error(
            f"checksum mismatch in {plural(wrong.size, 'batch')}, at byte {where}{_more(wrong.size)}: "
            f"a recovery would keep the first {segment.valid_bytes:,} bytes"
        )


def _unreadable_markers(segment: SegmentHeaders) -> Iterator[Remark]:
    rows = np.flatnonzero((segment.batches.control_type == UNREADABLE_CONTROL_TYPE) & segment.batches.crc_ok)
    if rows.size:
        yield error(f"{plural(rows.size, 'control batch')} without a readable control record")


def log_remarks(batches: HeaderColumns, seen: Visibility, *, has_sequences: bool) -> Iterator[Remark]:
    """Remarks on a whole log; group coordinators may restart their sequences (facts §8)."""
    yield from _open_transactions(seen)
    yield from order_remarks(batches, seen, has_sequences=has_sequences)


def order_remarks(batches: HeaderColumns, seen: Visibility, *, has_sequences: bool) -> Iterator[Remark]:
    """Remarks on the order of batches, in a whole log or in one segment."""
    yield from _idle_markers(batches, seen)
    yield from _backward_offsets(batches)
    if has_sequences:
        yield from _sequence_gaps(batches)


def _open_transactions(seen: Visibility) -> Iterator[Remark]:
    if seen.open_txns:
        oldest = seen.open_txns[0]
        yield warning(
            f"{plural(len(seen.open_txns), 'open transaction')}: the oldest, of producer "
            f"{oldest.producer_id} epoch {oldest.producer_epoch}, keeps the last stable offset "
            f"at {seen.last_stable_offset:,}"
        )


def _idle_markers(batches: HeaderColumns, seen: Visibility) -> Iterator[Remark]:
    rows = seen.idle_markers
    if rows.size:
        where = _examples(f"{batches.base_offset[row]:,}" for row in rows[:_SHOWN])
        yield note(
            f"{plural(rows.size, 'duplicate marker')}, at offset {where}{_more(rows.size)}: "
            "repeated by a coordinator, or the end of an empty transaction"
        )


def _backward_offsets(batches: HeaderColumns) -> Iterator[Remark]:
    rows = 1 + np.flatnonzero(batches.base_offset[1:] <= last_offsets(batches)[:-1])
    if rows.size:
        where = _examples(f"{batches.base_offset[row]:,}" for row in rows[:_SHOWN])
        yield error(
            f"offsets do not increase at {plural(rows.size, 'batch')}, at offset {where}{_more(rows.size)}"
        )


def _sequence_gaps(batches: HeaderColumns) -> Iterator[Remark]:
    gaps = sequence_gaps(batches)
    if gaps.size:
        named = (
            f"producer {batches.producer_id[row]} epoch {batches.producer_epoch[row]} at offset "
            f"{batches.base_offset[row]:,}, sequence {batches.base_sequence[row]}"
            for row in gaps[:_SHOWN]
        )
        yield warning(f"{plural(gaps.size, 'sequence gap')}: {_examples(named)}{_more(gaps.size)}")


def sequence_gaps(batches: HeaderColumns) -> npt.NDArray[np.int64]:
    """Rows that do not follow their producer's batch before, although no offset is missing in between.

    Where offsets are missing, compaction has removed batches, and their sequences with them.
    """
    sent = (
        ((batches.attributes & CONTROL_FLAG) == 0)
        & (batches.producer_id >= 0)
        & (batches.base_sequence != NO_SEQUENCE)
    )
    rows = np.flatnonzero(sent & batches.crc_ok)
    rows = rows[np.lexsort((rows, batches.producer_epoch[rows], batches.producer_id[rows]))]
    before, after = rows[:-1], rows[1:]
    same = (batches.producer_id[before] == batches.producer_id[after]) & (
        batches.producer_epoch[before] == batches.producer_epoch[after]
    )
    expected = (last_sequences(batches)[before] + 1) % (MAX_SEQUENCE + 1)
    missing = _missing_offsets(batches)
    complete = missing[before] == missing[after]
    return np.sort(after[same & complete & (batches.base_sequence[after] != expected)])


def _missing_offsets(batches: HeaderColumns) -> npt.NDArray[np.int64]:
    """How many offsets are missing before each batch, counted from the log's first."""
    steps = batches.base_offset[1:] - last_offsets(batches)[:-1] - 1
    return np.concatenate([np.zeros(min(batches.rows, 1), dtype=np.int64), np.cumsum(steps)])


def _examples(named: Iterable[str]) -> str:
    return "; ".join(named)


def _more(count: int) -> str:
    return f" and {count - _SHOWN:,} more" if count > _SHOWN else ""
