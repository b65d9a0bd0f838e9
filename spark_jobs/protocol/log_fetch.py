"""A broker's answer to a fetch: whole batches, and the aborted transactions among them (facts §4.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from spark_jobs.protocol.aborted_index import aborted_for_fetch
from spark_jobs.protocol.log_segment import LogSegment, base_offset_of
from spark_jobs.protocol.partition_log import PartitionLog
from spark_jobs.protocol.segment import ScannedBatch
from spark_jobs.protocol.txn_index import AbortedTxn

NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """Batches of one segment from the one that holds the fetch offset on, and what to hide of them."""

    batches: tuple[ScannedBatch, ...] = ()
    aborted: tuple[AbortedTxn, ...] = ()


def fetch(log: PartitionLog, offset: int, *, read_committed: bool, max_bytes: int = NO_LIMIT) -> Fetch:
    """What a consumer gets from `offset`: nothing at or above the LSO or the high watermark."""
    limit = log.last_stable_offset if read_committed else log.high_watermark
    for index, segment in enumerate(log.segments):
        batches = _readable(segment, offset, limit, max_bytes) if offset < limit else ()
        if batches:
            rest = log.segments[index:]
            aborted = _aborted(rest, offset, batches, log.log_end_offset) if read_committed else ()
            return Fetch(batches=batches, aborted=aborted)
    return Fetch()


def _readable(segment: LogSegment, offset: int, limit: int, max_bytes: int) -> tuple[ScannedBatch, ...]:
    """At least one batch if there is any, then as many as fit into `max_bytes`."""
    found = [b for b in segment.batches[segment.index_of(offset) :] if base_offset_of(b) < limit]
    return tuple(b for b in found if b is found[0] or b.end - found[0].position <= max_bytes)


def _aborted(
    segments: Sequence[LogSegment], offset: int, batches: tuple[ScannedBatch, ...], log_end_offset: int
) -> tuple[AbortedTxn, ...]:
    return aborted_for_fetch(
        (segment.aborted for segment in segments),
        fetch_offset=offset,
        upper_bound_offset=_upper_bound(segments, batches[-1].end, log_end_offset),
    )


def _upper_bound(segments: Sequence[LogSegment], end: int, log_end_offset: int) -> int:
    """The first indexed offset behind the bytes that were read, else where the segment ends."""
    following = segments[1].base_offset if len(segments) > 1 else log_end_offset
    return next((entry.offset for entry in segments[0].offset_index if entry.position >= end), following)
