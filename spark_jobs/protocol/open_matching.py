"""Which of the coordinator's transactions left a partition without a marker (facts §3.8).

The states of the table decide where they can: a prepared or ongoing transaction that lists the partition. A
completed one of an older client proves nothing by its epoch, so order and time have to.
"""

from collections.abc import Iterable, Sequence

from spark_jobs.protocol.coordinator_transaction import CoordinatorTransaction
from spark_jobs.protocol.partition_transactions import PartitionTransaction
from spark_jobs.protocol.transaction_candidates import (
    NO_BOUND,
    NO_MATCH,
    SEVERAL,
    Candidates,
    decided_around,
    end_of,
)


def match_open(
    part: PartitionTransaction,
    before: Sequence[PartitionTransaction],
    indexes: Sequence[int],
    known: Candidates,
) -> int:
    """The transaction that left the part without a marker."""
    newest = max(indexes, default=NO_MATCH)
    if before and indexes[-1] >= 0 and _is_certain(before[-1], known):
        index = _next_on_partition(part, known, newest)
        if index != NO_MATCH:
            return index
    sharing = known.sharing_data_epoch.get(part.producer_epoch, ())
    listed = [i for i in sharing if i > newest and known.transactions[i].lists(part.topic_partition)]
    in_time = [i for i in listed if _data_in_window(known.transactions[i], part, known.clock_skew_ms)]
    # A completed transaction left its markers everywhere: its epoch alone does not prove that it is this one.
    possible = [i for i in listed if not known.transactions[i].state.is_complete or i in in_time]
    if not possible:
        return NO_MATCH
    if _results(possible, known) > 1 and _results(in_time, known) != 1:
        return SEVERAL
    index = in_time[0] if in_time else possible[-1]
    is_complete = known.transactions[index].state.is_complete
    return SEVERAL if is_complete and known.may_be_older(part.producer_epoch, part.first_timestamp) else index


def _is_certain(part: PartitionTransaction, known: Candidates) -> bool:
    """Within the clock skew only one transaction can have written the part's marker."""
    marker = part.marker
    if marker is None or marker.producer_epoch in known.named_by_marker:
        return marker is not None
    if known.may_be_older(marker.producer_epoch, marker.timestamp):
        return False
    around = decided_around(marker, known, range(NO_BOUND), skew_ms=known.clock_skew_ms)
    return sum(known.transactions[i].lists(part.topic_partition) for i in around) == 1


def _next_on_partition(part: PartitionTransaction, known: Candidates, newest: int) -> int:
    """The next transaction on the partition, if the open part can be it: each one leaves a marker there."""
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
    """Written between the transaction's start and its decision, give or take the clock skew."""
    begun = part.first_timestamp >= txn.start_timestamp_ms - skew_ms
    return begun and (txn.end_timestamp_ms is None or part.last_timestamp <= txn.end_timestamp_ms + skew_ms)
