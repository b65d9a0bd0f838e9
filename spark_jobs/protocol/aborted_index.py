"""The aborted index in use: built from markers, searched for a fetch, cut with its log (facts §4.2-4.3)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from spark_jobs.protocol.errors import CorruptTxnIndex
from spark_jobs.protocol.partition_transactions import (
    LogBatch,
    PartitionTransaction,
    aborted_entry,
    close_transactions,
)
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.txn_index import AbortedTxn

_ANY_PARTITION = TopicPartition("", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedSearch:
    """Aborted transactions that touch a range; `is_complete` if no later segment can add to them."""

    aborted: tuple[AbortedTxn, ...]
    is_complete: bool


def build_aborted_index(
    batches: Iterable[LogBatch], *, open_before: Mapping[int, PartitionTransaction] | None = None
) -> Iterator[AbortedTxn]:
    """The entries for the ABORT markers in `batches`, as a leader writes them, batch after batch."""
    for closed in close_transactions(batches, _ANY_PARTITION, dict(open_before or {})):
        if entry := aborted_entry(closed):
            yield entry


def append_aborted(entries: tuple[AbortedTxn, ...], entry: AbortedTxn) -> tuple[AbortedTxn, ...]:
    """The index with `entry` at its end; markers only ever follow each other."""
    if entries and entry.last_offset <= entries[-1].last_offset:
        raise CorruptTxnIndex(
            position=0, expected=f"a last offset above {entries[-1].last_offset}", found=entry.last_offset
        )
    return (*entries, entry)


def truncate_aborted(entries: Iterable[AbortedTxn], offset: int) -> tuple[AbortedTxn, ...]:
    """What is left when the log is cut at `offset`: the transactions whose marker stays."""
    return tuple(entry for entry in entries if entry.last_offset < offset)


def search_aborted(
    entries: Iterable[AbortedTxn], *, fetch_offset: int, upper_bound_offset: int
) -> AbortedSearch:
    """The broker's search of one segment's index for the batches of [fetch_offset, upper_bound_offset)."""
    found: list[AbortedTxn] = []
    for entry in entries:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound_offset:
            return AbortedSearch(aborted=tuple(found), is_complete=True)
    return AbortedSearch(aborted=tuple(found), is_complete=False)


def aborted_for_fetch(
    segments: Iterable[Iterable[AbortedTxn]], *, fetch_offset: int, upper_bound_offset: int
) -> tuple[AbortedTxn, ...]:
    """The list that goes with a read_committed fetch: from the segment being read forward until complete."""
    found: list[AbortedTxn] = []
    for entries in segments:
        search = search_aborted(entries, fetch_offset=fetch_offset, upper_bound_offset=upper_bound_offset)
        found.extend(search.aborted)
        if search.is_complete:
            break
    return tuple(found)


def may_hide_aborted(entry: AbortedTxn, others: Iterable[AbortedTxn]) -> bool:
    """Whether a search that stops at `entry` can miss a transaction aborted later (facts §1.9).

    Followers write such entries when one fetch held several transactions: trust the markers instead.
    """
    return any(
        o.first_offset < entry.last_stable_offset and o.last_offset > entry.last_offset for o in others
    )
