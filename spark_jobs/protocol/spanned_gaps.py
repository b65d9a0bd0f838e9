"""What a transaction that spans missing offsets can be, by the coordinator's word (facts §2.8, §3.8).

A marker may be among the offsets that no copy holds. Then an older transaction's data and a younger one's
look like one, and the younger one's marker speaks for itself alone. The coordinator can tell: by epochs,
where each names one transaction, or because all transactions that the data can be of have ended alike.
"""

from collections.abc import Sequence
from itertools import accumulate

from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.transaction_candidates import NO_MATCH, SEVERAL, Candidates, end_of

Doubt = tuple[int, ...]
"""Indexes of the transactions that a part can hold data of."""


def doubts(
    parts: Sequence[PartitionTransaction], indexes: Sequence[int], known: Candidates
) -> Sequence[Doubt | None]:
    """For each part of one partition, matched to `indexes`, None unless a gap leaves its outcome open."""
    if all(part.gap is None for part in parts):
        return (None,) * len(parts)
    before = accumulate(indexes[:-1], max, initial=NO_MATCH)
    return [_doubt(*each, known) for each in zip(parts, indexes, before, strict=True)]


def _doubt(part: PartitionTransaction, index: int, newest: int, known: Candidates) -> Doubt | None:
    """What nobody has matched keeps to its own rules, as long as it has one epoch."""
    if part.gap is None or (index == NO_MATCH and len(part.epochs) == 1):
        return None
    possible = tuple(i for i in range(newest + 1, _end(part, index, known)) if _can_be_in(part, i, known))
    if index in {NO_MATCH, SEVERAL} or not _is_all_known(part, known) or not _ends_it(part, index, known):
        return possible
    return None if _end_alike({index, *possible}, known) else possible


def _end(part: PartitionTransaction, index: int, known: Candidates) -> int:
    """A marker's transaction is the last one; what is open may continue with any that follows."""
    return len(known.transactions) if part.marker is None or index < 0 else index + 1


def _can_be_in(part: PartitionTransaction, index: int, known: Candidates) -> bool:
    """Whether the transaction used the partition, one of the part's epochs, and its time."""
    txn, skew_ms = known.transactions[index], known.clock_skew_ms
    is_over = end_of(known, index) + skew_ms < part.first_timestamp
    is_later = part.marker is None and txn.start_timestamp_ms - skew_ms > part.last_timestamp
    has_its_epoch = any(epoch in part.epochs for epoch in txn.possible_epochs)
    return txn.lists(part.topic_partition) and has_its_epoch and not is_over and not is_later


def _is_all_known(part: PartitionTransaction, known: Candidates) -> bool:
    """The coordinator's log reaches back to before the part's first batch."""
    first = part.epochs[0]
    if first in known.named_by_data:
        # An abort that is all that is left may be a fence of an older client, whose epoch has served more.
        return known.transactions[known.named_by_data[first]].is_clients_own
    return first in known.sharing_data_epoch and not known.may_be_older(first, part.first_timestamp)


def _ends_it(part: PartitionTransaction, index: int, known: Candidates) -> bool:
    """Nothing of the part is younger than the transaction, of which the coordinator's log may not tell yet.

    An epoch of its own proves it, unless the marker's is a later one's. Otherwise the marker, or the last
    batch of what is open, has to fit in time, and the marker in what it says.
    """
    txn, marker = known.transactions[index], part.marker
    if txn.names_its_epoch and len(part.epochs) == 1:
        return marker is None or marker.producer_epoch <= part.producer_epoch + 1
    latest = part.last_timestamp if marker is None else marker.timestamp
    if txn.result is None or latest > end_of(known, index) + known.clock_skew_ms:
        return False
    return marker is None or marker.is_commit == (txn.result is TransactionResult.COMMIT)


def _end_alike(indexes: set[int], known: Candidates) -> bool:
    return len({known.transactions[i].result for i in indexes}) == 1
