"""Which batches of a partition a consumer gets, decided on the columns of their headers (facts §4).

Two rules: markers decide transactions, and of overlapping segments a broker serves the first.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.reading.isolation import Isolation


class BatchOutcome(IntEnum):
    """The outcome of a batch's transaction."""

    PLAIN = 0
    """Not transactional: nothing to decide."""
    COMMITTED = 1
    ABORTED = 2
    OPEN = 3
    CONTROL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTxn:
    """A transaction that no marker has ended."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTxns:
    """Aborted transactions that have batches, as a transaction index lists them; one element each."""

    producer_id: npt.NDArray[np.int64]
    first_offset: npt.NDArray[np.int64]
    last_offset: npt.NDArray[np.int64]
    """The marker's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """Outcome of every batch of a partition, and the offsets that bound what a consumer gets."""

    outcome: npt.NDArray[np.int8]
    ended_by: npt.NDArray[np.int64]
    """Row of the marker that ended each batch's transaction; -1 where there is none."""
    aborted_txns: AbortedTxns
    open_txns: tuple[OpenTxn, ...]
    idle_markers: npt.NDArray[np.int64]
    """Rows of markers that ended no transaction: empty ones, or repeated by a coordinator (facts §3.1)."""
    log_start_offset: int
    log_end_offset: int

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset, if all of the log is replicated."""
        if not self.open_txns:
            return self.log_end_offset
        return max(self.open_txns[0].first_offset, self.log_start_offset)

    def visible(self, batches: HeaderColumns, isolation: Isolation) -> npt.NDArray[np.bool_]:
        """Which batches hold records for such a consumer; single records below the log's start still go."""
        hidden: list[int] = [BatchOutcome.CONTROL]
        end = self.log_end_offset
        if isolation is Isolation.READ_COMMITTED:
            hidden += [BatchOutcome.ABORTED, BatchOutcome.OPEN]
            end = self.last_stable_offset
        last = last_offsets(batches)
        shown: npt.NDArray[np.bool_] = ~np.isin(self.outcome, hidden) & (last < end)
        shown &= last >= self.log_start_offset
        return shown


def last_offsets(batches: HeaderColumns) -> npt.NDArray[np.int64]:
    return batches.base_offset + batches.last_offset_delta


def decide(batches: HeaderColumns, *, log_start_offset: int = 0, least_end: int = 0) -> Visibility:
    """Outcomes of all batches of one partition, in offset order.

    As in a broker's replay, a marker ends whatever its producer has open, of whatever epoch (facts §2.9).
    `least_end` is the base offset of the last segment: the log ends there if that segment is empty.
    """
    is_control = (batches.attributes & CONTROL_FLAG) != 0
    is_transactional = ((batches.attributes & TRANSACTIONAL_FLAG) != 0) & (batches.producer_id >= 0)
    is_marker = (
        is_control & np.isin(batches.control_type, (ControlType.ABORT, ControlType.COMMIT)) & batches.crc_ok
    )
    is_data = ~is_control & is_transactional & batches.crc_ok
    rows = np.flatnonzero(is_marker | is_data)
    rows = rows[np.argsort(batches.producer_id[rows], kind="stable")]
    ending = _ending_marker(rows, batches.producer_id[rows], is_marker[rows])
    outcome = np.where(is_control, BatchOutcome.CONTROL, BatchOutcome.PLAIN).astype(np.int8)
    ended = np.where(
        batches.control_type[ending] == ControlType.COMMIT, BatchOutcome.COMMITTED, BatchOutcome.ABORTED
    )
    data = is_data[rows]
    outcome[rows[data]] = np.where(ending < 0, BatchOutcome.OPEN, ended)[data]
    ended_by = np.full(batches.rows, -1, dtype=np.int64)
    ended_by[rows[data]] = ending[data]
    ends = last_offsets(batches)[batches.crc_ok]
    aborted = data & (outcome[rows] == BatchOutcome.ABORTED)
    return Visibility(
        outcome=outcome,
        ended_by=ended_by,
        aborted_txns=_aborted_txns(batches, rows[aborted], ending[aborted]),
        open_txns=_open_txns(batches, rows[data & (ending < 0)]),
        idle_markers=_idle_markers(rows, batches.producer_id[rows], is_marker[rows]),
        log_start_offset=log_start_offset,
        log_end_offset=max(int(ends[-1]) + 1 if ends.size else 0, log_start_offset, least_end),
    )


def _ending_marker(
    rows: npt.NDArray[np.int64], producers: npt.NDArray[np.int64], is_marker: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """For each of `rows`, grouped by producer, the row of the producer's next marker; -1 if there is none."""
    beyond = rows.size
    places = np.where(is_marker, np.arange(rows.size), beyond)
    following = np.minimum.accumulate(places[::-1])[::-1] if rows.size else places
    found = np.minimum(following, max(beyond - 1, 0))
    same = (following < beyond) & (producers[found] == producers)
    return np.where(same, rows[found], -1)


def _idle_markers(
    rows: npt.NDArray[np.int64], producers: npt.NDArray[np.int64], is_marker: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Markers that directly follow a marker of the same producer."""
    follows = (producers[1:] == producers[:-1]) & is_marker[:-1] & is_marker[1:]
    return np.sort(rows[1:][follows])


def _aborted_txns(
    batches: HeaderColumns, rows: npt.NDArray[np.int64], markers: npt.NDArray[np.int64]
) -> AbortedTxns:
    """`rows` are batches grouped by producer and in offset order, `markers` the ones that aborted them."""
    ends, first = np.unique(markers, return_index=True)
    return AbortedTxns(
        producer_id=batches.producer_id[ends],
        first_offset=batches.base_offset[rows[first]],
        last_offset=batches.base_offset[ends],
    )


def _open_txns(batches: HeaderColumns, rows: npt.NDArray[np.int64]) -> tuple[OpenTxn, ...]:
    """Open transactions by first offset; `rows` are their batches, grouped by producer, in offset order."""
    producers, first, count = np.unique(batches.producer_id[rows], return_index=True, return_counts=True)
    txns = (
        OpenTxn(
            producer_id=int(producer),
            producer_epoch=int(batches.producer_epoch[rows[start + length - 1]]),
            first_offset=int(batches.base_offset[rows[start]]),
            last_timestamp=int(batches.max_timestamp[rows[start + length - 1]]),
        )
        for producer, start, length in zip(producers, first, count, strict=True)
    )
    return tuple(sorted(txns, key=lambda txn: txn.first_offset))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPart:
    """The batches of a segment that a broker serves: those from row `first_row` on.

    Records below `first_offset` are served from a segment before this one.
    """

    first_row: int
    first_offset: int


def served_parts(bases: Sequence[int], segments: Sequence[HeaderColumns]) -> tuple[ServedPart, ...]:
    """What a consumer gets of each segment, by base offset, who reads from the first on.

    A broker looks for an offset in the last segment that begins at or before it. So where a copy was made
    during a compaction, and holds a cleaned segment beside those that it was made of, these are skipped.
    """
    log_end = max((_end_of(batches) for batches in segments[-1:]), default=0)
    served = [ServedPart(first_row=batches.rows, first_offset=0) for batches in segments]
    number, at = 0, -(2**63)
    while number < len(segments):
        batches = segments[number]
        first = int(np.argmax(np.append(last_offsets(batches) >= at, True)))
        served[number] = ServedPart(first_row=first, first_offset=at)
        # An end behind the whole log's is a damaged base offset, which no checksum covers.
        if first < batches.rows and (end := _end_of(batches)) <= max(log_end, bases[-1]):
            at = max(at, end)
        number = max(number + 1, bisect_right(bases, at) - 1)
    return tuple(served)


def _end_of(batches: HeaderColumns) -> int:
    return int(last_offsets(batches)[-1]) + 1 if batches.rows else 0
