"""The records that a consumer gets from a log against those that the recorded consumer got."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from spark_jobs.kafka.errors import InvalidRecord
from spark_jobs.kafka.formats.control_record import read_first_control_type, read_marker
from spark_jobs.kafka.formats.record_batch import check_batch
from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kafka.log.read_committed import ConsumerFilter, next_position, records_from, visibility
from spark_jobs.kafka.log.segment import ScannedBatch, read_batch_records
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.partition_transactions import LogBatch, fold
from spark_jobs.sample.broker.log_segment import LogSegment, base_offset_of
from spark_jobs.sample.broker.partition_log import PartitionLog, fetch
from tests.recordings.difference import Difference, fields, values
from tests.recordings.recording import truth_of

MIN_FETCH_BYTES = 4096
FETCHES = 64
"""A log takes about this many fetches, each with its own list of aborted transactions."""

Records = tuple[Mapping[str, Any], ...]


def compare_committed(
    where: str, topic_partition: TopicPartition, recorded: Records, log: PartitionLog
) -> Iterator[Difference]:
    """read_committed in both ways: a broker's fetches with a consumer's filter, and the markers alone."""
    fetched = consume(log, read_committed=True)
    yield from _compare(f"{where} read_committed", topic_partition, recorded, fetched)
    by_markers = committed_by_markers(topic_partition, log)
    yield from _compare(f"{where} read_committed by markers", topic_partition, recorded, by_markers)


def compare_uncommitted(
    where: str, topic_partition: TopicPartition, recorded: Records, log: PartitionLog
) -> Iterator[Difference]:
    fetched = consume(log, read_committed=False)
    yield from _compare(f"{where} read_uncommitted", topic_partition, recorded, fetched)


def consume(log: PartitionLog, *, read_committed: bool) -> Iterator[LogRecord]:
    """Fetches from the log's start to its end; raises where a consumer would fail."""
    position = log.log_start_offset
    source = str(log.config.topic_partition)
    max_bytes = max(MIN_FETCH_BYTES, sum(segment.size for segment in log.segments) // FETCHES)
    while (answer := fetch(log, position, read_committed=read_committed, max_bytes=max_bytes)).batches:
        segment = _segment_of(log, answer.batches[0])
        seen = ConsumerFilter((txn.producer_id, txn.first_offset) for txn in answer.aborted)
        for batch in answer.batches:
            check_batch(segment.batch_bytes(batch), source=source)
            if next_position(batch.header) <= position:
                raise InvalidRecord(
                    source=source, position=batch.position, expected=f"offset {position}", found=batch.header
                )
            if seen.accepts(batch.header, _control_type(segment, batch)):
                yield from records_from(_records(segment, batch), position)
            position = next_position(batch.header)


def committed_by_markers(topic_partition: TopicPartition, log: PartitionLog) -> Iterator[LogRecord]:
    """The records that are visible by the markers in the log alone, without a snapshot."""
    batches = [(segment, batch) for segment in log.segments for batch in segment.batches]
    closed, undecided = fold((_log_batch(*batch) for batch in batches), topic_partition)
    seen = visibility(
        closed,
        undecided=(txn.first_offset for txn in undecided.values()),
        high_watermark=log.high_watermark,
        log_start_offset=log.log_start_offset,
    )
    for segment, batch in batches:
        if seen.shows(batch.header):
            yield from records_from(_records(segment, batch), log.log_start_offset)


def _compare(
    where: str, topic_partition: TopicPartition, recorded: Records, replayed: Iterator[LogRecord]
) -> Iterator[Difference]:
    theirs = {record["offset"]: record for record in recorded}
    ours = {record.offset: truth_of(topic_partition, record) for record in replayed}
    where = f"{where} {topic_partition}"
    yield from values(where, "offsets that only one side has", *_unshared(theirs.keys(), ours.keys()))
    for offset in sorted(theirs.keys() & ours.keys()):
        yield from fields(f"{where} offset {offset}", theirs[offset], ours[offset])


def _unshared(theirs: Any, ours: Any) -> tuple[list[int], list[int]]:
    return sorted(theirs - ours), sorted(ours - theirs)


def _segment_of(log: PartitionLog, batch: ScannedBatch) -> LogSegment:
    index = bisect_right(log.segments, base_offset_of(batch), key=lambda segment: segment.base_offset)
    return log.segments[index - 1]


def _records(segment: LogSegment, batch: ScannedBatch) -> Iterator[LogRecord]:
    return read_batch_records(segment.batch_bytes(batch), ScannedBatch(position=0, header=batch.header))


def _control_type(segment: LogSegment, batch: ScannedBatch) -> Any:
    return read_first_control_type(segment.batch_bytes(batch)) if batch.header.is_control else None


def _log_batch(segment: LogSegment, batch: ScannedBatch) -> LogBatch:
    return batch.header, read_marker(segment.batch_bytes(batch)) if batch.header.is_control else None
