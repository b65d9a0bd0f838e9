"""Matches transactions and batches of a partition with the coordinator's transactions (facts §3.8).

All inputs are of one producer id. A bumped epoch identifies a transaction. Older clients use one epoch for
many transactions; order and time distinguish these. On a partition transactions have the same order as in the
coordinator's log, a marker is written right after the decision, and an open transaction is the newest on its
partition.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from spark_jobs.kafka.coordinator.timeline import CoordinatorTransaction
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction, WrittenMarker

NO_BOUND = 2**63

NO_MATCH = -1
SEVERAL = -2
"""It fits several transactions that ended differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The coordinator's transactions of one producer id in order, and their indexes by the epochs they used.

    `named_by_marker` holds those whose marker epoch no other transaction has, `named_by_data` those whose
    data epoch no other has. The others share their epoch.
    """

    transactions: tuple[CoordinatorTransaction, ...]
    named_by_marker: dict[int, int]
    named_by_data: dict[int, int]
    sharing_marker_epoch: dict[int, tuple[int, ...]]
    sharing_data_epoch: dict[int, tuple[int, ...]]
    undecided: tuple[int, ...]
    clock_skew_ms: int

    def may_be_older(self, epoch: int, timestamp: int) -> bool:
        """Whether data of that epoch and time may be of a transaction whose records compaction removed."""
        sharing = self.sharing_data_epoch.get(epoch, ())
        if not sharing or self.transactions[sharing[0]].has_known_past:
            return False
        return timestamp <= self.transactions[sharing[0]].start_timestamp_ms + self.clock_skew_ms


def candidates(
    transactions: Iterable[CoordinatorTransaction], *, clock_skew_ms: int, trust_lone_aborts: bool = True
) -> Candidates:
    """`transactions` of one producer id, in the order of the coordinator's log.

    A lone abort, the only remaining record of an id, reads as TV2. Without `trust_lone_aborts` it may also be
    the fence of an older client by a TV2 cluster.
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
    """Transactions with the marker's epoch that were decided before it, without another one in between.

    Both allow for the clock skew; the coordinator's times ascend.
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
    """When the transaction was decided; `NO_BOUND` if it was not."""
    end = known.transactions[index].end_timestamp_ms
    return NO_BOUND if end is None else end


def match_open(
    part: PartitionTransaction,
    before: Sequence[PartitionTransaction],
    indexes: Sequence[int],
    known: Candidates,
) -> int:
    """The index of the transaction of an open part: one that left the partition without a marker."""
    newest = max(indexes, default=NO_MATCH)
    if before and indexes[-1] >= 0 and _is_certain(before[-1], known):
        index = _next_on_partition(part, known, newest)
        if index != NO_MATCH:
            return index
    sharing = known.sharing_data_epoch.get(part.producer_epoch, ())
    listed = [i for i in sharing if i > newest and known.transactions[i].lists(part.topic_partition)]
    in_time = [i for i in listed if _data_in_window(known.transactions[i], part, known.clock_skew_ms)]
    # A completed transaction has its markers on every partition: its epoch alone does not identify it.
    possible = [i for i in listed if not known.transactions[i].state.is_complete or i in in_time]
    if not possible:
        return NO_MATCH
    if _results(possible, known) > 1 and _results(in_time, known) != 1:
        return SEVERAL
    index = in_time[0] if in_time else possible[-1]
    is_complete = known.transactions[index].state.is_complete
    return SEVERAL if is_complete and known.may_be_older(part.producer_epoch, part.first_timestamp) else index


def _is_certain(part: PartitionTransaction, known: Candidates) -> bool:
    """Whether, within the clock skew, only one transaction can have written the part's marker."""
    marker = part.marker
    if marker is None or marker.producer_epoch in known.named_by_marker:
        return marker is not None
    if known.may_be_older(marker.producer_epoch, marker.timestamp):
        return False
    around = decided_around(marker, known, range(NO_BOUND), skew_ms=known.clock_skew_ms)
    return sum(known.transactions[i].lists(part.topic_partition) for i in around) == 1


def _next_on_partition(part: PartitionTransaction, known: Candidates, newest: int) -> int:
    """The next transaction on the partition, if the open part fits it: each earlier one left a marker."""
    for index in range(newest + 1, len(known.transactions)):
        txn = known.transactions[index]
        if part.topic_partition in (txn.topic_partitions or ()):
            is_later = part.first_timestamp > end_of(known, index) + known.clock_skew_ms
            same_epoch = part.producer_epoch in txn.possible_epochs
            return index if same_epoch and not is_later else NO_MATCH
    return NO_MATCH


def _results(indexes: Iterable[int], known: Candidates) -> int:
    """How many different ends the transactions had."""
    return len({known.transactions[i].result for i in indexes})


def _data_in_window(txn: CoordinatorTransaction, part: PartitionTransaction, skew_ms: int) -> bool:
    """Whether it was written between the transaction's start and its decision, within the clock skew."""
    begun = part.first_timestamp >= txn.start_timestamp_ms - skew_ms
    return begun and (txn.end_timestamp_ms is None or part.last_timestamp <= txn.end_timestamp_ms + skew_ms)


def match_partition(parts: Sequence[PartitionTransaction], known: Candidates) -> tuple[int, ...]:
    """For each part of one partition, in offset order, the index of its transaction, NO_MATCH or SEVERAL.

    The most certain matches are made first and bound the others: parts and transactions have the same order.
    """
    if not known.transactions:
        return (NO_MATCH,) * len(parts)
    indexes = [_named(part, known) for part in parts]
    if NO_MATCH not in indexes:
        return tuple(indexes)  # every part is matched: order and time are not needed
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
    """The transaction that an epoch identifies, if it has the partition: the marker's epoch, else the data's.

    The marker of an operator's abort has the epoch of the data, so it alone would identify the one before.
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
    """Whether a lone abort that reads as TV2 also fits in time: it may be the fence of an older client."""
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
    """Matches closed parts with transactions between those of their neighbours.

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
    """For each part the smallest index that a later part is matched with."""
    smallest, found = NO_BOUND, list[int]()
    for index in reversed(indexes):
        found.append(smallest)
        smallest = index if 0 <= index < smallest else smallest
    return found[::-1]


def _decided_just_before(
    part: PartitionTransaction, marker: WrittenMarker, known: Candidates, bounds: range
) -> int:
    """The transaction whose decision directly precedes the marker, if clocks agree."""
    return max(_agreeing(part, marker, known, bounds, skew_ms=0), default=NO_MATCH)


def _decided_near(part: PartitionTransaction, marker: WrittenMarker, known: Candidates, bounds: range) -> int:
    """The transaction whose decision is nearest to the marker, if clocks differ."""
    near = _agreeing(part, marker, known, bounds, skew_ms=known.clock_skew_ms)
    return min(near, key=lambda i: abs(end_of(known, i) - marker.timestamp), default=NO_MATCH)


def _contradicted(part: PartitionTransaction, marker: WrittenMarker, known: Candidates, bounds: range) -> int:
    """The transaction that an unmatched marker contradicts: it has the partition, and no other marker."""
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
    """Matches markers with transactions whose end is not in the copy of the coordinator's log.

    Only the first marker after such a transaction began can be its own. Returns the unclear ones.
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
    """Whether the marker's epoch was bumped for this transaction, or the marker is certainly later."""
    marker = part.marker
    if marker is None:
        return False
    by_epoch = txn.names_its_epoch and marker.producer_epoch > part.producer_epoch
    return by_epoch or marker.timestamp > txn.start_timestamp_ms + skew_ms


_UNKNOWN_PAST = -1
"""Transactions before the first known one, whose records are gone."""


def match_batches(batches: Sequence[PartitionTransaction], known: Candidates) -> tuple[int, ...]:
    """For each batch of a capture without markers, in offset order: its transaction, NO_MATCH or SEVERAL."""
    matched: dict[int, int] = {}
    by_epoch: dict[int, list[int]] = {}
    for place, batch in enumerate(batches):
        by_epoch.setdefault(batch.producer_epoch, []).append(place)
    for epoch, places in by_epoch.items():
        same_epoch = [batches[place] for place in places]
        matched.update(zip(places, _match_epoch(epoch, same_epoch, known), strict=True))
    return tuple(matched[place] for place in range(len(batches)))


def _match_epoch(epoch: int, batches: list[PartitionTransaction], known: Candidates) -> list[int]:
    topic_partition = batches[0].topic_partition
    named = known.named_by_data.get(epoch)
    if named is not None:
        return [named if known.transactions[named].lists(topic_partition) else NO_MATCH] * len(batches)
    sharing = known.sharing_data_epoch.get(epoch, ())
    running = [i for i in sharing if known.transactions[i].lists(topic_partition)]
    if not running:
        return [NO_MATCH] * len(batches)
    ranges = _narrow([_running_at(batch, running, known) for batch in batches])
    return [_decide(low, high, running, known) for low, high in ranges]


def _running_at(batch: PartitionTransaction, running: list[int], known: Candidates) -> tuple[int, int]:
    """First and last index in `running` of the transactions that were open when the batch was written."""
    skew = known.clock_skew_ms
    low = bisect_left(running, batch.last_timestamp - skew, key=lambda i: end_of(known, i))
    high = bisect_right(running, batch.first_timestamp + skew, key=lambda i: _start(known, i)) - 1
    if known.may_be_older(batch.producer_epoch, batch.first_timestamp):
        low = _UNKNOWN_PAST
    return low, high


def _start(known: Candidates, index: int) -> int:
    return known.transactions[index].start_timestamp_ms


def _narrow(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Each range limited by its neighbours': transactions on a partition do not overlap.

    A batch that fits nowhere (an empty range) does not limit the others.
    """
    lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
    fits = [low <= high for low, high in ranges]
    reached = _UNKNOWN_PAST
    for place, low in enumerate(lows):
        reached = max(reached, low) if fits[place] else reached
        lows[place] = reached if fits[place] else low
    limit = NO_BOUND
    for place in reversed(range(len(highs))):
        limit = min(limit, highs[place]) if fits[place] else limit
        highs[place] = limit if fits[place] else highs[place]
    return list(zip(lows, highs, strict=True))


def _decide(low: int, high: int, running: list[int], known: Candidates) -> int:
    if low > high:
        return NO_MATCH
    if low == _UNKNOWN_PAST:
        return SEVERAL
    possible = running[low : high + 1]
    results = {known.transactions[i].result for i in possible}
    return possible[0] if len(results) == 1 else SEVERAL
