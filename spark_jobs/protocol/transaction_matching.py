"""Which of the coordinator's transactions a partition's transaction is (facts §3.8).

All inputs are of one producer id. A bumped epoch names a transaction. Where older clients used one epoch for
many, order and time distinguishes them: on a partition transactions follow each other as in the coordinator's
log, a marker is written right after the decision, and an open transaction is the newest on its partition.
"""

from collections.abc import Callable, Sequence

from spark_jobs.protocol.coordinator_transaction import CoordinatorTransaction
from spark_jobs.protocol.end_txn import TransactionResult
from spark_jobs.protocol.open_matching import match_open
from spark_jobs.protocol.partition_transactions import PartitionTransaction, WrittenMarker
from spark_jobs.protocol.transaction_candidates import (
    NO_BOUND,
    NO_MATCH,
    SEVERAL,
    Candidates,
    decided_around,
    end_of,
)


def match_partition(parts: Sequence[PartitionTransaction], known: Candidates) -> tuple[int, ...]:
    """For each part of one partition, in offset order, the index of its transaction, NO_MATCH or SEVERAL.

    What is surest comes first and bounds the rest: parts and transactions have the same order.
    """
    if not known.transactions:
        return (NO_MATCH,) * len(parts)
    indexes = [_named(part, known) for part in parts]
    if NO_MATCH not in indexes:
        return tuple(indexes)  # order and time have nothing left to tell
    _match_closed(parts, indexes, known, _decided_just_before, may_repeat=True)
    _match_closed(parts, indexes, known, _decided_near, may_repeat=True)
    unclear = _match_undecided(parts, indexes, known)
    _match_closed(parts, indexes, known, _contradicted, may_repeat=False)
    for place, part in enumerate(parts):
        if part.marker is None and indexes[place] == NO_MATCH:
            index = match_open(part, parts[:place], indexes[:place], known)
            indexes[place] = SEVERAL if index in unclear else index
    return tuple(indexes)


def _named(part: PartitionTransaction, known: Candidates) -> int:
    """The transaction that an epoch names, if the partition is in it: the marker's, else the data's.

    An operator's abort has the epoch of the data, so that the marker alone would name the one before.
    """
    by_marker = NO_MATCH
    if part.marker is not None:
        by_marker = known.named_by_marker.get(part.marker.producer_epoch, NO_MATCH)
    if by_marker != NO_MATCH and _can_be(part, known, by_marker):
        return by_marker
    by_data = known.named_by_data.get(part.producer_epoch, NO_MATCH) if part.batch_count else NO_MATCH
    if by_data != NO_MATCH and _can_be(part, known, by_data) and not _is_doubtful(part, known, by_data):
        return by_data
    return NO_MATCH


def _can_be(part: PartitionTransaction, known: Candidates, index: int) -> bool:
    txn = known.transactions[index]
    is_its_data = not part.batch_count or part.producer_epoch in txn.possible_epochs
    return is_its_data and txn.lists(part.topic_partition)


def _is_doubtful(part: PartitionTransaction, known: Candidates, index: int) -> bool:
    """What reads as TV2 may be a fence of an older client, if it is all that is left; then time has a say."""
    txn = known.transactions[index]
    is_earlier = part.last_timestamp < txn.start_timestamp_ms - known.clock_skew_ms
    return not txn.is_clients_own and (is_earlier or part.marker is not None)


Find = Callable[[PartitionTransaction, WrittenMarker, Candidates, range], int]


def _match_closed(
    parts: Sequence[PartitionTransaction],
    indexes: list[int],
    known: Candidates,
    find: Find,
    *,
    may_repeat: bool,
) -> None:
    """Looks for the transactions of closed parts between those of their neighbours.

    With `may_repeat`, a marker that closed nothing may also repeat the one before it.
    """
    following = _smallest_behind(indexes)
    newest = NO_MATCH
    for place, part in enumerate(parts):
        if part.marker is not None and indexes[place] == NO_MATCH:
            lowest = max(newest, 0) if may_repeat and not part.batch_count else newest + 1
            indexes[place] = find(part, part.marker, known, range(lowest, following[place]))
        newest = max(newest, indexes[place])


def _smallest_behind(indexes: Sequence[int]) -> list[int]:
    """For each place the smallest index that is matched behind it."""
    smallest, found = NO_BOUND, list[int]()
    for index in reversed(indexes):
        found.append(smallest)
        smallest = index if 0 <= index < smallest else smallest
    return found[::-1]


def _decided_just_before(
    part: PartitionTransaction, marker: WrittenMarker, known: Candidates, bounds: range
) -> int:
    """The transaction whose decision the marker follows at once, by clocks that agree."""
    return max(_agreeing(part, marker, known, bounds, skew_ms=0), default=NO_MATCH)


def _decided_near(part: PartitionTransaction, marker: WrittenMarker, known: Candidates, bounds: range) -> int:
    """The transaction whose decision is nearest to the marker, by clocks that differ."""
    near = _agreeing(part, marker, known, bounds, skew_ms=known.clock_skew_ms)
    return min(near, key=lambda i: abs(end_of(known, i) - marker.timestamp), default=NO_MATCH)


def _contradicted(part: PartitionTransaction, marker: WrittenMarker, known: Candidates, bounds: range) -> int:
    """The transaction that a left-over marker contradicts: it lists the partition and has no other there."""
    for index in decided_around(marker, known, bounds, skew_ms=known.clock_skew_ms):
        txn = known.transactions[index]
        may_be_older = txn.state.is_complete and known.may_be_older(marker.producer_epoch, marker.timestamp)
        if part.topic_partition in (txn.topic_partitions or ()) and not may_be_older:
            return index
    return NO_MATCH


def _agreeing(
    part: PartitionTransaction, marker: WrittenMarker, known: Candidates, bounds: range, *, skew_ms: int
) -> list[int]:
    result = TransactionResult.COMMIT if marker.is_commit else TransactionResult.ABORT
    return [
        i
        for i in decided_around(marker, known, bounds, skew_ms=skew_ms)
        if known.transactions[i].result is result and known.transactions[i].lists(part.topic_partition)
    ]


def _match_undecided(
    parts: Sequence[PartitionTransaction], indexes: list[int], known: Candidates
) -> set[int]:
    """Finds the markers of transactions whose end the copy of the coordinator's log does not hold.

    Only the first marker after such a transaction began can be its own. Returns those where it is unclear.
    """
    unclear: set[int] = set()
    following = _smallest_behind(indexes)
    for index in known.undecided:
        place = _first_marker_since(parts, indexes, following, index, known)
        if place is None:
            continue
        if _is_of(parts[place], known.transactions[index], known.clock_skew_ms):
            indexes[place] = index
        else:
            unclear.add(index)
    return unclear


def _first_marker_since(
    parts: Sequence[PartitionTransaction],
    indexes: Sequence[int],
    following: Sequence[int],
    index: int,
    known: Candidates,
) -> int | None:
    txn = known.transactions[index]
    newest = NO_MATCH
    for place, part in enumerate(parts):
        newest = max(newest, indexes[place])
        if part.marker is None or indexes[place] != NO_MATCH or not newest < index < following[place]:
            continue
        is_its_data = part.producer_epoch in txn.possible_epochs and txn.lists(part.topic_partition)
        if is_its_data and part.marker.timestamp >= txn.start_timestamp_ms - known.clock_skew_ms:
            return place
    return None


def _is_of(part: PartitionTransaction, txn: CoordinatorTransaction, skew_ms: int) -> bool:
    """The marker was bumped for this transaction alone, or written after it began beyond doubt."""
    marker = part.marker
    if marker is None:
        return False
    by_epoch = txn.names_its_epoch and marker.producer_epoch > part.producer_epoch
    return by_epoch or marker.timestamp > txn.start_timestamp_ms + skew_ms
