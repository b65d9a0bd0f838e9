"""What a follower takes of a fetch response (facts §2.3): whole batches, in order, not newer than itself."""

from spark_jobs.protocol.errors import InvalidRecord, TornBatch
from spark_jobs.protocol.log_segment import base_offset_of
from spark_jobs.protocol.segment import ScannedBatch, check_scanned_crc, scan_result


def follower_batches(records: bytes, *, leader_epoch: int, log_end_offset: int) -> tuple[ScannedBatch, ...]:
    """The batches to append; a torn last one waits for the next fetch, disorder and corruption raise.

    From a batch of a newer leader epoch on nothing is taken, so nothing there is checked but its frame. The
    first batch must not begin before the log's end, and last offsets must ascend.
    """
    result = scan_result(records, check_crc=False)
    if result.problem is not None and not isinstance(result.problem, TornBatch):
        raise result.problem
    kept: list[ScannedBatch] = []
    for batch in result.batches:
        if batch.header.partition_leader_epoch > leader_epoch:
            break
        check_scanned_crc(records, batch)
        expected = kept[-1].header.next_offset if kept else log_end_offset
        found = batch.header.last_offset if kept else base_offset_of(batch)
        if found < expected:
            raise InvalidRecord(position=batch.position, expected=f"offset {expected} or more", found=found)
        kept.append(batch)
    return tuple(kept)
