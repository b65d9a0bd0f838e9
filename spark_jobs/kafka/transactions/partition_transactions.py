"""Transactions as one partition saw them: from the first batch to the marker that closed them (facts §2.8).

The rules are those of a replay, not of a leader: everything in the log counts, and a marker closes its
producer's open transaction of any epoch. A transaction that is open at the end continues in the next piece of
the same log. Missing offsets may include a marker: a transaction that is open there gets a `gap`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_jobs.kafka.formats.control_record import ControlType, EndTransactionMarker
from spark_jobs.kafka.formats.indexes import AbortedTxn
from spark_jobs.kafka.formats.legacy import LegacyHeader
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.log.replica_copies import Gap
from spark_jobs.kafka.topic_partition import TopicPartition

LogBatch = tuple[RecordBatchHeader | LegacyHeader, EndTransactionMarker | None]
"""A batch's header and, for a control batch that ends a transaction, its marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenMarker:
    """A marker in a log; its timestamp is of the broker's clock."""

    offset: int
    producer_epoch: int
    coordinator_epoch: int
    timestamp: int
    is_commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SpannedGap:
    """Missing offsets between a transaction's first batch and its end, from the first to the last of them.

    They may include a marker, so the data before them may belong to another transaction.
    """

    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTransaction:
    """One transaction on one partition; without data (`batch_count` 0) it is a marker that closed nothing.

    `producer_epoch` is the newest epoch of its data, `first_epoch` that of its first batch if it is another;
    the timestamps are the batches' own, so usually the producer's clock. `appended_by` is a broker's time by
    which its last batch was appended, if one is known. With a `gap` it may be several transactions.
    """

    topic_partition: TopicPartition
    producer_id: int
    producer_epoch: int
    first_offset: int
    last_offset: int
    batch_count: int
    first_timestamp: int
    last_timestamp: int
    marker: WrittenMarker | None = None
    first_epoch: int | None = None
    gap: SpannedGap | None = None
    appended_by: int | None = None

    @property
    def epochs(self) -> range:
        """From the epoch of its first batch to that of its last; a zombie's batch may have a lower one."""
        first = self.producer_epoch if self.first_epoch is None else self.first_epoch
        return range(min(first, self.producer_epoch), max(first, self.producer_epoch) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedTransaction:
    """A transaction at the moment of its marker; `oldest_open` is where the oldest other one begins."""

    transaction: PartitionTransaction
    oldest_open: int | None


OpenTransactions = dict[int, PartitionTransaction]
"""The transactions that no marker has closed yet, by producer id."""


def close_transactions(
    batches: Iterable[LogBatch],
    topic_partition: TopicPartition,
    open_transactions: OpenTransactions,
    gaps: Sequence[Gap] = (),
) -> Iterator[ClosedTransaction]:
    """The transactions that `batches` close, each at its marker; `gaps` by offset.

    `open_transactions` is updated in place: open before the batches, then open after them.
    """
    passed = 0
    for header, marker in batches:
        if isinstance(header, LegacyHeader) or not header.has_producer_id:
            continue
        while passed < len(gaps) and gaps[passed].last_offset < header.base_offset:
            _span(open_transactions, gaps[passed])
            passed += 1
        if marker is not None:
            opened = open_transactions.pop(header.producer_id, None)
            oldest = min((txn.first_offset for txn in open_transactions.values()), default=None)
            closed = _close(opened, topic_partition, header, marker)
            yield ClosedTransaction(transaction=closed, oldest_open=oldest)
        elif header.is_transactional and not header.is_control:
            opened = open_transactions.get(header.producer_id)
            open_transactions[header.producer_id] = _extend(opened, topic_partition, header)
    for gap in gaps[passed:]:
        _span(open_transactions, gap)


def fold(
    batches: Iterable[LogBatch],
    topic_partition: TopicPartition,
    *,
    open_before: Mapping[int, PartitionTransaction] | None = None,
    gaps: Sequence[Gap] = (),
) -> tuple[tuple[PartitionTransaction, ...], OpenTransactions]:
    """The transactions that `batches` closed, in the order of their markers, and those left open."""
    left = dict(open_before or {})
    closed = tuple(c.transaction for c in close_transactions(batches, topic_partition, left, gaps))
    return closed, left


def aborted_entry(closed: ClosedTransaction) -> AbortedTxn | None:
    """The `.txnindex` entry for a transaction that was just closed: none for commits and empty ones."""
    txn, marker = closed.transaction, closed.transaction.marker
    if marker is None or marker.is_commit or not txn.batch_count:
        return None
    return AbortedTxn(
        producer_id=txn.producer_id,
        first_offset=txn.first_offset,
        last_offset=marker.offset,
        last_stable_offset=marker.offset + 1 if closed.oldest_open is None else closed.oldest_open,
    )


def _span(open_transactions: OpenTransactions, gap: Gap) -> None:
    """Adds the gap to every open transaction; of several gaps the first and the last offset are kept."""
    for producer_id, txn in open_transactions.items():
        first_offset = gap.first_offset if txn.gap is None else txn.gap.first_offset
        spanned = SpannedGap(first_offset=first_offset, last_offset=gap.last_offset)
        open_transactions[producer_id] = replace(txn, gap=spanned)


def _extend(
    txn: PartitionTransaction | None, topic_partition: TopicPartition, header: RecordBatchHeader
) -> PartitionTransaction:
    if txn is None:
        return PartitionTransaction(
            topic_partition=topic_partition,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            first_offset=header.base_offset,
            last_offset=header.last_offset,
            batch_count=1,
            first_timestamp=header.max_timestamp,
            last_timestamp=header.max_timestamp,
        )
    return replace(
        txn,
        producer_epoch=header.producer_epoch,
        last_offset=header.last_offset,
        batch_count=txn.batch_count + 1,
        first_timestamp=min(txn.first_timestamp, header.max_timestamp),
        last_timestamp=max(txn.last_timestamp, header.max_timestamp),
        first_epoch=_first_epoch(txn, header),
    )


def _first_epoch(txn: PartitionTransaction, header: RecordBatchHeader) -> int | None:
    first = txn.producer_epoch if txn.first_epoch is None else txn.first_epoch
    return None if first == header.producer_epoch else first


def _close(
    opened: PartitionTransaction | None,
    topic_partition: TopicPartition,
    header: RecordBatchHeader,
    marker: EndTransactionMarker,
) -> PartitionTransaction:
    written = WrittenMarker(
        offset=header.base_offset,
        producer_epoch=header.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=header.max_timestamp,
        is_commit=marker.control_type is ControlType.COMMIT,
    )
    if opened is not None:
        return replace(opened, marker=written)
    return replace(_extend(None, topic_partition, header), batch_count=0, marker=written)
