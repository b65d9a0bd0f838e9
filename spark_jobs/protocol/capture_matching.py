"""Which of the coordinator's transactions a captured batch belongs to, where no marker was ever written.

A TV2 client's epoch names its transaction. Older clients use one epoch for many: then a batch belongs to the
transaction that was running at its timestamp, give or take the clock skew, and since a producer's batches on
a partition are in the order of its transactions, each batch narrows down its neighbours.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.transaction_candidates import NO_BOUND, NO_MATCH, SEVERAL, Candidates, end_of

_UNKNOWN_PAST = -1
"""Stands for transactions before the first known one, whose records are gone."""


def match_batches(batches: Sequence[PartitionTransaction], known: Candidates) -> tuple[int, ...]:
    """For each batch of one partition, in offset order, the index of its transaction, NO_MATCH or SEVERAL."""
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
    """First and last place in `running` of the transactions that were open while the batch was written."""
    skew = known.clock_skew_ms
    low = bisect_left(running, batch.last_timestamp - skew, key=lambda i: end_of(known, i))
    high = bisect_right(running, batch.first_timestamp + skew, key=lambda i: _start(known, i)) - 1
    if known.may_be_older(batch.producer_epoch, batch.first_timestamp):
        low = _UNKNOWN_PAST
    return low, high


def _start(known: Candidates, index: int) -> int:
    return known.transactions[index].start_timestamp_ms


def _narrow(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Each range cut by its neighbours': transactions only ever follow each other on a partition.

    A batch that fits nowhere (its range is empty) says nothing about the others.
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
