"""The view of an `isolation.level=read_committed` consumer (facts §4): bounds, filter, visible batches.

Runs use the bounds. The filter and the visible batches are the specification: tests compare kernels, readers
and recordings of a broker with them.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.legacy import LegacyHeader
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kafka.transactions.partition_transactions import LogBatch, PartitionTransaction

AnyHeader = RecordBatchHeader | LegacyHeader


def first_unstable_offset(
    *, undecided: Iterable[int], unreplicated: Iterable[int] = (), log_start_offset: int = 0
) -> int | None:
    """Start of the oldest transaction that is open, or decided by a marker that is not replicated yet.

    Both are first offsets; data deleted from the front moves the answer up to the log's start.
    """
    oldest = min((*undecided, *unreplicated), default=None)
    return None if oldest is None else max(oldest, log_start_offset)


def last_stable_offset(*, first_unstable: int | None, high_watermark: int) -> int:
    """The last stable offset: the first offset that a read_committed consumer does not get yet."""
    if first_unstable is not None and first_unstable < high_watermark:
        return first_unstable
    return high_watermark


def unreplicated(transactions: Iterable[PartitionTransaction], high_watermark: int) -> Iterator[int]:
    """First offsets of the closed transactions whose marker is at or above the high watermark."""
    for txn in transactions:
        if txn.batch_count and txn.marker is not None and txn.marker.offset >= high_watermark:
            yield txn.first_offset


class ConsumerFilter:
    """The filter of one fetch response: which batches an aborted list hides (facts §4.4).

    Batches come in order; `accepts` returns whether a batch's records may be returned.
    """

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """`aborted` holds producer id and first offset of each entry, in any order."""
        self._coming = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._coming)
        self._aborted_producers: set[int] = set()

    def accepts(self, header: AnyHeader, control_type: ControlType | None) -> bool:
        """`control_type` is that of a control batch's first record."""
        if not header.has_producer_id:
            return not header.is_control
        while self._coming and self._coming[0][0] <= header.last_offset:
            self._aborted_producers.add(heapq.heappop(self._coming)[1])
        if header.is_control:
            if control_type is ControlType.ABORT:
                self._aborted_producers.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in self._aborted_producers)


def next_position(header: AnyHeader) -> int:
    """Where a consumer continues after a batch, even if compaction removed its last records."""
    return header.last_offset + 1


def records_from(records: Iterable[LogRecord], position: int) -> Iterator[LogRecord]:
    """A batch's records that the consumer has not had yet."""
    return (record for record in records if record.offset >= position)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadCommittedView:
    """Which batches of a partition a read_committed consumer sees, from its markers alone.

    `hidden` holds for each producer the aborted ranges, first to last offset, ascending.
    """

    last_stable_offset: int
    log_start_offset: int
    hidden: dict[int, tuple[tuple[int, int], ...]]

    def shows(self, header: AnyHeader) -> bool:
        """Whether the batch's records are visible, except single ones below the log's start."""
        if header.is_control or not self.log_start_offset <= header.last_offset < self.last_stable_offset:
            return False
        return not (header.is_transactional and self._is_hidden(header.producer_id, header.last_offset))

    def _is_hidden(self, producer_id: int, offset: int) -> bool:
        ranges = self.hidden.get(producer_id, ())
        index = bisect_right(ranges, offset, key=lambda r: r[0]) - 1
        return index >= 0 and offset <= ranges[index][1]


def visibility(
    closed: Iterable[PartitionTransaction],
    *,
    undecided: Iterable[int],
    high_watermark: int,
    log_start_offset: int = 0,
) -> ReadCommittedView:
    """The visibility of a log whose markers closed `closed` and left `undecided` first offsets open."""
    transactions = tuple(closed)
    unstable = first_unstable_offset(
        undecided=undecided,
        unreplicated=unreplicated(transactions, high_watermark),
        log_start_offset=log_start_offset,
    )
    hidden: dict[int, list[tuple[int, int]]] = {}
    for txn in transactions:
        if txn.batch_count and txn.marker is not None and not txn.marker.is_commit:
            hidden.setdefault(txn.producer_id, []).append((txn.first_offset, txn.marker.offset))
    return ReadCommittedView(
        last_stable_offset=last_stable_offset(first_unstable=unstable, high_watermark=high_watermark),
        log_start_offset=log_start_offset,
        hidden={producer_id: tuple(sorted(ranges)) for producer_id, ranges in hidden.items()},
    )


def visible_batches(batches: Iterable[LogBatch], seen: ReadCommittedView) -> Iterator[AnyHeader]:
    """Headers of the batches that a read_committed consumer gets, in order."""
    return (header for header, _ in batches if seen.shows(header))
