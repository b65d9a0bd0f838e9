"""What producers sent to a recorded broker, as a gateway would have captured it, and its answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader, read_header
from spark_jobs.kafka.log.segment import scan, scan_result
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.recordings.events import Produce, read_events

DATA = Path(__file__).parents[1] / "recordings" / "data"
OFFSET_SIZE = 8
"""A batch begins with its offset, which is 0 as long as no broker has given it one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedBatch:
    """One object of a capture; a marker has no answer."""

    topic_partition: TopicPartition
    records: bytes
    error: KafkaError | None = None
    offset: int = -1


def produced(recording: str) -> list[CapturedBatch]:
    """Every produced batch with an answer, in wire order.

    Requests with several batches are left out: a broker refuses them whole, a capture shows batches only.
    """
    return [
        CapturedBatch(
            topic_partition=part.topic_partition,
            records=part.records,
            error=KafkaError(part.reply["error_code"]),
            offset=part.reply["base_offset"],
        )
        for event in read_events(DATA / recording / "replies.jsonl")
        if isinstance(event, Produce)
        for part in event.parts
        if part.reply is not None and len(scan_result(part.records).batches) <= 1
    ]


def appended(recording: str) -> Iterator[CapturedBatch]:
    """What a broker took of its producers, by its logs, where the requests were not recorded."""
    for directory in sorted((DATA / recording / "data").iterdir()):
        if directory.is_dir() and not directory.name.startswith("__"):
            topic, _, number = directory.name.rpartition("-")
            yield from _appended(recording, TopicPartition(topic, int(number)))


def _appended(recording: str, partition: TopicPartition) -> Iterator[CapturedBatch]:
    log = log_of(recording, partition)
    for batch in scan(log):
        if isinstance(batch.header, RecordBatchHeader) and not batch.header.is_control:
            records = bytes(OFFSET_SIZE) + log[batch.position + OFFSET_SIZE : batch.end]
            yield CapturedBatch(topic_partition=partition, records=records, error=KafkaError.NONE)


def with_markers(recording: str, batches: list[CapturedBatch]) -> Iterator[CapturedBatch]:
    """`batches` with the log's markers, each before the first accepted batch that is behind it.

    Left out is what a broker refused for its coordinator's sake, since a capture knows nothing of that.
    """
    markers = {each: list(_markers(recording, each)) for each in sorted({b.topic_partition for b in batches})}
    epochs: dict[tuple[TopicPartition, int], int] = {}
    for batch in batches:
        pending = markers[batch.topic_partition]
        before = sum(marker.offset < batch.offset for marker in pending)
        for each in (*pending[:before], batch):
            header = read_header(each.records)
            producer = each.topic_partition, header.producer_id
            if each.error in {None, KafkaError.NONE}:
                epochs[producer] = header.producer_epoch
            if not _is_unverified(each, header.producer_epoch, epochs.get(producer, -1)):
                yield each
        del pending[:before]
    for left in markers.values():
        yield from left


def _is_unverified(batch: CapturedBatch, epoch: int, known_epoch: int) -> bool:
    is_unfenced = batch.error is KafkaError.INVALID_PRODUCER_EPOCH and known_epoch <= epoch
    return is_unfenced or batch.error is KafkaError.INVALID_TXN_STATE


def log_of(recording: str, partition: TopicPartition) -> bytes:
    """The partition's whole log."""
    return b"".join(path.read_bytes() for path in sorted(_directory(recording, partition).glob("*.log")))


def newest_snapshot(recording: str, partition: TopicPartition) -> bytes:
    return max(_directory(recording, partition).glob("*.snapshot")).read_bytes()


def _directory(recording: str, partition: TopicPartition) -> Path:
    return DATA / recording / "data" / str(partition)


def _markers(recording: str, partition: TopicPartition) -> Iterator[CapturedBatch]:
    log = log_of(recording, partition)
    for batch in scan(log):
        if isinstance(batch.header, RecordBatchHeader) and batch.header.is_control:
            records = log[batch.position : batch.end]
            yield CapturedBatch(topic_partition=partition, records=records, offset=batch.header.base_offset)
