"""The coordinator's transactions of one producer id, ready to be found by epoch, order and time."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spark_jobs.protocol.coordinator_transaction import CoordinatorTransaction
from spark_jobs.protocol.partition_transactions import WrittenMarker

NO_BOUND = 2**63

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

    def may_be_older(self, epoch: int, timestamp: int) -> bool:
        """Something of that epoch and time may be of a transaction of which compaction left no record."""
        sharing = self.sharing_data_epoch.get(epoch, ())
        if not sharing or self.transactions[sharing[0]].has_known_past:
            return False
        return timestamp <= self.transactions[sharing[0]].start_timestamp_ms + self.clock_skew_ms


def candidates(
    transactions: Iterable[CoordinatorTransaction], *, clock_skew_ms: int, trust_lone_aborts: bool = True
) -> Candidates:
    """`transactions` of one producer id, in the order of the coordinator's log.

    An abort that is all that is left of an id reads as TV2; without `trust_lone_aborts` it may as well be an
    older client that a TV2 cluster fenced.
    """
    ordered = tuple(transactions)
    named = {i for i, txn in enumerate(ordered) if txn.names_its_epoch}
    if not trust_lone_aborts:
        named = {i for i in named if ordered[i].is_clients_own}
    by_marker: dict[int, list[int]] = {}
    by_data: dict[int, list[int]] = {}
    for index, txn in enumerate(ordered):
        if txn.marker_epoch is not None and not txn.is_epoch_bumped:
            by_marker.setdefault(txn.marker_epoch, []).append(index)
        for epoch in () if index in named else txn.possible_epochs:
            by_data.setdefault(epoch, []).append(index)
    numbered = tuple(enumerate(ordered))
    return Candidates(
        transactions=ordered,
        named_by_marker={
            txn.marker_epoch: index
            for index, txn in numbered
            if txn.marker_epoch is not None and txn.is_epoch_bumped
        },
        named_by_data={
            epoch: index for index, txn in numbered if index in named for epoch in txn.possible_epochs
        },
        sharing_marker_epoch={epoch: tuple(indexes) for epoch, indexes in by_marker.items()},
        sharing_data_epoch={epoch: tuple(indexes) for epoch, indexes in by_data.items()},
        undecided=tuple(index for index, txn in numbered if txn.result is None),
        clock_skew_ms=clock_skew_ms,
    )


def decided_around(marker: WrittenMarker, known: Candidates, bounds: range, *, skew_ms: int) -> Iterator[int]:
    """Transactions with the marker's epoch that were decided before it, and followed by none before it.

    Both give or take the skew; the coordinator's times ascend.
    """
    sharing = known.sharing_marker_epoch.get(marker.producer_epoch, ())
    for place in range(bisect_left(sharing, bounds.start), bisect_left(sharing, bounds.stop)):
        index = sharing[place]
        if end_of(known, index) - skew_ms > marker.timestamp:
            return
        following = known.transactions[index + 1 : index + 2]
        if not following or marker.timestamp <= following[0].start_timestamp_ms + skew_ms:
            yield index


def end_of(known: Candidates, index: int) -> int:
    """When the transaction was decided; the end of time if it was not."""
    end = known.transactions[index].end_timestamp_ms
    return NO_BOUND if end is None else end
