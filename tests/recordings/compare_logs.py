"""The replayed partitions against the recorded ones: segments, snapshots, indexes, epochs, offsets."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from spark_jobs.kafka.formats.control_record import read_marker
from spark_jobs.kafka.formats.indexes import read_txn_index
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.formats.records import read_records
from spark_jobs.kafka.formats.snapshot import read_snapshot
from spark_jobs.kafka.producers.producer_state import ProducerStateEntry
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.sample.broker.log_segment import build_aborted_index
from spark_jobs.sample.broker.partition_log import PartitionLog
from tests.recordings.difference import Difference, first_unequal, values
from tests.recordings.log_directory import RecordedPartition
from tests.recordings.recording import PartitionOffsets

Keyed = Mapping[int, tuple[bytes | None, bytes]]
"""Records by offset: the key, and key, value and headers as one."""


def compare_partition(
    recorded: RecordedPartition, replayed: PartitionLog, cleaned_to: int | None
) -> Iterator[Difference]:
    """Everything a partition's directory holds; a cleaned log cannot be compared byte by byte."""
    where = str(recorded.topic_partition)
    if cleaned_to is None:
        yield from _compare_segments(where, recorded, replayed)
    else:
        yield from _compare_survivors(where, recorded, replayed, cleaned_to)
    yield from compare_snapshots(where, recorded.snapshots, replayed.snapshots)
    yield from _compare_epochs(where, recorded, replayed)


def compare_offsets(
    where: str, topic_partition: TopicPartition, recorded: PartitionOffsets, log: PartitionLog
) -> Iterator[Difference]:
    """Log start, high watermark and last stable offset as the broker reported them."""
    for name, value in asdict(recorded).items():
        yield from values(f"{where} {topic_partition}", name, value, getattr(log, name))


def compare_aborted(recorded: RecordedPartition, log: PartitionLog) -> Iterator[Difference]:
    """The transaction indexes as they are against those that the log's own markers give."""
    batches = (
        (batch.header, read_marker(batch.data) if batch.header.is_control else None)
        for batch in recorded.batches
        if batch.header.base_offset < log.log_end_offset
    )
    yield from values(
        str(recorded.topic_partition),
        "aborted transactions",
        log.aborted,
        tuple(build_aborted_index(batches)),
    )


def compare_snapshots(
    where: str, recorded: Mapping[int, bytes], replayed: Mapping[int, bytes]
) -> Iterator[Difference]:
    """The same snapshots, with the same entries in any order."""
    yield from values(where, "snapshot offsets", sorted(recorded), sorted(replayed))
    for offset in sorted(recorded.keys() & replayed.keys()):
        yield from compare_entries(f"{where} {offset}.snapshot", recorded[offset], replayed[offset])


def compare_entries(where: str, recorded: bytes, replayed: bytes) -> Iterator[Difference]:
    """Two snapshots, producer by producer."""
    theirs, ours = entries_by_producer(recorded, where), entries_by_producer(replayed, where)
    for producer_id in sorted(theirs.keys() | ours.keys()):
        yield from values(where, f"producer {producer_id}", theirs.get(producer_id), ours.get(producer_id))


def entries_by_producer(snapshot: bytes, source: str) -> dict[int, ProducerStateEntry]:
    return {entry.producer_id: entry for entry in read_snapshot(snapshot, source=source)}


def _compare_segments(
    where: str, recorded: RecordedPartition, replayed: PartitionLog
) -> Iterator[Difference]:
    ours = {segment.base_offset: segment for segment in replayed.segments}
    yield from values(where, "segments", sorted(recorded.segments), sorted(ours))
    for base_offset in sorted(recorded.segments.keys() & ours.keys()):
        segment = ours[base_offset]
        yield from first_unequal(
            where, f"{base_offset}.log", recorded.segments[base_offset], bytes(segment.data)
        )
        index = read_txn_index(recorded.txn_indexes.get(base_offset, b""), source=where)
        yield from values(where, f"{base_offset}.txnindex", index, tuple(segment.aborted))


def _compare_survivors(
    where: str, recorded: RecordedPartition, replayed: PartitionLog, cleaned_to: int
) -> Iterator[Difference]:
    """Every record that the cleaner left was written, and the newest of each key is there."""
    theirs = _keyed((batch.header, batch.data) for batch in recorded.batches)
    ours = _keyed(
        (b.header, segment.batch_bytes(b)) for segment in replayed.segments for b in segment.batches
    )
    for offset, record in theirs.items():
        yield from values(where, f"record {offset}", record, ours.get(offset))
    newest = {key: offset for offset, (key, _) in ours.items() if offset < cleaned_to}
    needed = {offset for offset in ours if offset >= cleaned_to} | set(newest.values())
    yield from values(where, "records that a cleaner keeps", [], sorted(needed - theirs.keys()))


def _keyed(batches: Iterator[tuple[object, bytes]]) -> Keyed:
    return {
        record.offset: (record.key, repr((record.key, record.value, record.headers)).encode())
        for header, data in batches
        if isinstance(header, RecordBatchHeader) and not header.is_control
        for record in read_records(data)
    }


def _compare_epochs(where: str, recorded: RecordedPartition, replayed: PartitionLog) -> Iterator[Difference]:
    theirs = [(entry.epoch, entry.start_offset) for entry in recorded.leader_epochs]
    ours = [(entry.epoch, entry.start_offset) for entry in replayed.leader_epochs.entries]
    yield from values(where, "leader-epoch-checkpoint", theirs, ours)
