"""Which of the coordinator's transactions a partition's transaction is (facts §3.8).

All inputs are of one producer id. A bumped epoch names a transaction. Where older clients used one epoch for
many, order and time tell them apart: on a partition transactions follow each other as in the coordinator's
log, a marker is written right after the decision, and an open transaction is the newest on its partition.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.protocol.partition_transactions import PartitionTransaction, WrittenMarker
from spark_jobs.protocol.transaction_timeline import CoordinatorTransaction

NO_MATCH = -1
SEVERAL = -2
"""It can be one of several transactions that ended differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The coordinator's transactions of one producer id in order, and their indexes by the epochs they used.

    `named_by_marker` holds those whose marker epoch no other transaction has, `named_by_data` those whose
    data epoch none has; the others share theirs.
    """

    transactions: tuple[CoordinatorTransaction, ...]
    named_by_marker: dict[int, int]
    named_by_data: dict[int, int]
    sharing_marker_epoch: dict[int, tuple[int, ...]]
    sharing_data_epoch: dict[int, tuple[int, ...]]
    undecided: tuple[int, ...]
    clock_skew_ms: int


def candidates(transactions: Iterable[CoordinatorTransaction], *, clock_skew_ms: int) -> Candidates:
    """`transactions` of one producer id, in the order of the coordinator's log."""
    ordered = tuple(transactions)
    by_marker: dict[int, list[int]] = {}
    by_data: dict[int, list[int]] = {}
    for index, txn in enumerate(ordered):
        if txn.marker_epoch is not None and not _names_marker_epoch(txn):
            by_marker.setdefault(txn.marker_epoch, []).append(index)
        for epoch in () if txn.names_its_epoch else txn.possible_epochs:
            by_data.setdefault(epoch, []).append(index)
    numbered = tuple(enumerate(ordered))
    return Candidates(
        transactions=ordered,
        named_by_marker={
            txn.marker_epoch: index
            for index, txn in numbered
            if txn.marker_epoch is not None and _names_marker_epoch(txn)
        },
        named_by_data={
            epoch: index for index, txn in numbered if txn.names_its_epoch for epoch in txn.possible_epochs
        },
        sharing_marker_epoch={epoch: tuple(indexes) for epoch, indexes in by_marker.items()},
        sharing_data_epoch={epoch: tuple(indexes) for epoch, indexes in by_data.items()},
        undecided=tuple(index for index, txn in numbered if txn.result is None),
        clock_skew_ms=clock_skew_ms,
    )


def match_partition(parts: Sequence[PartitionTransaction], known: Candidates) -> tuple[int, ...]:
    """For each part of one partition, in offset order, the index of its transaction, NO_MATCH or SEVERAL."""
    indexes: list[int] = []
    newest, is_certain = NO_MATCH, False
    for part in parts:
        if part.marker is None:
            index = _match_next(part, known, newest) if is_certain else NO_MATCH
            index = _match_open(part, known, newest) if index == NO_MATCH else index
        else:
            # A marker that closed nothing may repeat the one before: the same transaction is possible then.
            after = newest if part.batch_count else newest - 1
            index, is_certain = _match_closed(part, part.marker, known, after)
        newest = max(newest, index)
        indexes.append(index)
    taken = set(indexes)
    return tuple(
        _match_contradicted(part, known, taken) if index == NO_MATCH else index
        for part, index in zip(parts, indexes, strict=True)
    )


def _match_closed(
    part: PartitionTransaction, marker: WrittenMarker, known: Candidates, after: int
) -> tuple[int, bool]:
    """The transaction that a marker ended, and whether no other could be.

    Where several can, it is the latest that was decided before the marker was written.
    """
    named = known.named_by_marker.get(marker.producer_epoch)
    if named is not None and known.transactions[named].lists(part.topic_partition):
        return named, True
    around = [
        i for i in _decided_around(marker, known, after) if known.transactions[i].lists(part.topic_partition)
    ]
    result = TransactionResult.COMMIT if marker.is_commit else TransactionResult.ABORT
    fitting = [i for i in around if known.transactions[i].result is result]
    if fitting:
        nearest = min(fitting, key=lambda i: _distance(known.transactions[i], marker))
        return nearest, len(around) == 1
    return _match_ahead(part, marker, known, after), False


def _match_ahead(part: PartitionTransaction, marker: WrittenMarker, known: Candidates, after: int) -> int:
    """A transaction whose end the copy of the coordinator's log does not hold yet, or not any more."""
    for index in known.undecided:
        txn = known.transactions[index]
        is_its_data = index > after and part.producer_epoch in txn.possible_epochs
        if is_its_data and txn.lists(part.topic_partition):
            by_epoch = txn.names_its_epoch and marker.producer_epoch > part.producer_epoch
            if by_epoch or marker.timestamp > txn.start_timestamp_ms + known.clock_skew_ms:
                return index
    return NO_MATCH


def _match_contradicted(part: PartitionTransaction, known: Candidates, taken: set[int]) -> int:
    """The transaction that a left-over marker contradicts: it lists the partition and has no other there."""
    if part.marker is None:
        return NO_MATCH
    for index in _decided_around(part.marker, known, NO_MATCH):
        listed = known.transactions[index].topic_partitions or frozenset()
        if index not in taken and part.topic_partition in listed:
            return index
    return NO_MATCH


def _match_next(part: PartitionTransaction, known: Candidates, newest: int) -> int:
    """The next transaction on the partition, if the open part can be it: each one leaves a marker there."""
    for index in range(newest + 1, len(known.transactions)):
        txn = known.transactions[index]
        if part.topic_partition in (txn.topic_partitions or frozenset()):
            end = txn.end_timestamp_ms
            is_later = end is not None and part.first_timestamp > end + known.clock_skew_ms
            same_epoch = part.producer_epoch in txn.possible_epochs
            return index if same_epoch and not is_later else NO_MATCH
    return NO_MATCH


def _match_open(part: PartitionTransaction, known: Candidates, after: int) -> int:
    """The transaction that left the part without a marker."""
    named = known.named_by_data.get(part.producer_epoch)
    if named is not None and known.transactions[named].lists(part.topic_partition):
        return named
    sharing = known.sharing_data_epoch.get(part.producer_epoch, ())
    listed = [i for i in sharing if i > after and known.transactions[i].lists(part.topic_partition)]
    in_time = [i for i in listed if _data_in_window(known.transactions[i], part, known.clock_skew_ms)]
    # A completed transaction left its markers everywhere: its epoch alone does not prove that it is this one.
    possible = [i for i in listed if not known.transactions[i].state.is_complete or i in in_time]
    if not possible:
        return NO_MATCH
    if _results(possible, known) > 1 and _results(in_time, known) != 1:
        return SEVERAL
    index = in_time[0] if in_time else possible[-1]
    return SEVERAL if _may_be_older(known.transactions[index], part, known.clock_skew_ms) else index


def _may_be_older(txn: CoordinatorTransaction, part: PartitionTransaction, skew_ms: int) -> bool:
    """The part may be of a transaction before `txn`, of which compaction left no record."""
    is_survivor = txn.state.is_complete and not txn.has_known_past
    return is_survivor and part.first_timestamp <= txn.start_timestamp_ms + skew_ms


def _results(indexes: Iterable[int], known: Candidates) -> int:
    """How many different ends the transactions had."""
    return len({known.transactions[i].result for i in indexes})


def _names_marker_epoch(txn: CoordinatorTransaction) -> bool:
    """The epoch was bumped for the marker, by TV2 or by a fence, so no other transaction has it."""
    return txn.names_its_epoch or (txn.producer_epoch is not None and txn.producer_epoch != txn.marker_epoch)


def _decided_around(marker: WrittenMarker, known: Candidates, after: int) -> Iterator[int]:
    """Transactions with the marker's epoch that were decided before it, and followed by none before it.

    Both give or take the clock skew; the coordinator's times ascend.
    """
    sharing = known.sharing_marker_epoch.get(marker.producer_epoch, ())
    for index in sharing[bisect_right(sharing, after) :]:
        end = known.transactions[index].end_timestamp_ms
        if end is None or end - known.clock_skew_ms > marker.timestamp:
            return
        following = known.transactions[index + 1 : index + 2]
        if not following or marker.timestamp <= following[0].start_timestamp_ms + known.clock_skew_ms:
            yield index


def _data_in_window(txn: CoordinatorTransaction, part: PartitionTransaction, skew_ms: int) -> bool:
    """Written between the transaction's start and its decision, give or take the clock skew."""
    begun = part.first_timestamp >= txn.start_timestamp_ms - skew_ms
    return begun and (txn.end_timestamp_ms is None or part.last_timestamp <= txn.end_timestamp_ms + skew_ms)


def _distance(txn: CoordinatorTransaction, marker: WrittenMarker) -> tuple[bool, int]:
    """How far the decision is from the marker; one that comes after it is worse than any before."""
    end = txn.end_timestamp_ms or 0
    return end > marker.timestamp, abs(marker.timestamp - end)
