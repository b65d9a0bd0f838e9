"""What a follower takes of a fetch response (facts §2.3): whole batches, in order, not newer than itself."""

from spark_jobs.protocol.errors import InvalidRecord, TornBatch
from spark_jobs.protocol.log_segment import base_offset_of
from spark_jobs.protocol.segment import ScannedBatch, scan_result


def follower_batches(records: bytes, *, leader_epoch: int, log_end_offset: int) -> tuple[ScannedBatch, ...]:
    """The batches to append; a torn last one waits for the next fetch, disorder and corruption raise."""
    result = scan_result(records)
    if result.problem is not None and not isinstance(result.problem, TornBatch):
        raise result.problem
    kept: list[ScannedBatch] = []
    for batch in result.batches:
        if batch.header.partition_leader_epoch > leader_epoch:
            break
        expected, found = kept[-1].header.next_offset if kept else log_end_offset, base_offset_of(batch)
        if found < expected or batch.header.last_offset < expected:
            raise InvalidRecord(position=batch.position, expected=f"offset {expected} or more", found=found)
        kept.append(batch)
    return tuple(kept)
