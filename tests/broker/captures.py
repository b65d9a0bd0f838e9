"""Requests of producers to a live broker, as a gateway would capture them, with the broker's replies."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, RecordBatchHeader, read_header
from spark_jobs.kafka.log.segment import scan
from spark_jobs.kafka.producers.sequence import increment_sequence
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.recordings.events import Produce, ProducePart, read_events

FLUSHED = 0.2
DAMAGED = "odd-"
LOG_ENDS = "log_ends.json"
"""Beside a recording: where each log ended after an event that may have written markers."""
NOT_THE_LOGS = {
    10: "MESSAGE_TOO_LARGE: a topic's limit, which no capture shows",
    49: "INVALID_PRODUCER_ID_MAPPING: the coordinator's answer",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED: a request that contradicts itself",
    51: "CONCURRENT_TRANSACTIONS: the coordinator's answer",
    90: "PRODUCER_FENCED: the coordinator's answer",
    120: "TRANSACTION_ABORTABLE: the coordinator does not verify the batch",
}
"""Errors that do not come from the log: batches rejected with them are left out of a capture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProducer:
    """A producer as a partition's log has it."""

    epoch: int = -1
    sequence: int = -1
    offset: int = -1
    is_transactional: bool = False


UNKNOWN = KnownProducer()
Known = dict[tuple[TopicPartition, int], KnownProducer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """One batch; the answer to a marker is None."""

    partition: TopicPartition
    records: bytes
    error: str | None
    offset: int
    label: str


def captured(folder: Path, *, without: Iterable[str] = ()) -> Iterator[Captured]:
    """The recording in `folder` in wire order, with the markers where the broker wrote them.

    `without` are labels to leave out.
    """
    ends = _log_ends(folder)
    markers = {
        partition: sorted(_markers(folder, partition), key=lambda marker: marker.offset)
        for partition in {partition for found in ends.values() for partition in found}
    }
    known: Known = {}
    for event in read_events(folder / "replies.jsonl"):
        if isinstance(event, Produce) and event.label not in set(without):
            for part in event.parts:
                yield from _answered(part, event.label, known)
        for partition, end in ends.get(event.index, {}).items():
            while markers[partition] and markers[partition][0].offset < end:
                marker = markers[partition].pop(0)
                _remember(marker, known)
                yield marker


def _answered(part: ProducePart, label: str, known: Known) -> Iterator[Captured]:
    if part.reply is None or part.reply["error_code"] in NOT_THE_LOGS:
        return
    batch = Captured(
        partition=part.topic_partition,
        records=part.records,
        error=KafkaError(part.reply["error_code"]).name,
        offset=part.reply["base_offset"],
        label=label,
    )
    if not _is_unverified(batch, known):
        _remember(batch, known)
        yield batch


def _remember(batch: Captured, known: Known) -> None:
    """The producer state after an accepted batch; unchanged by a duplicate."""
    header = read_header(batch.records)
    before = known.get((batch.partition, header.producer_id), UNKNOWN)
    if batch.error not in {None, "NONE"} or batch.offset <= before.offset:
        return
    keeps_sequence = header.is_control and before.epoch == header.producer_epoch
    known[batch.partition, header.producer_id] = KnownProducer(
        epoch=header.producer_epoch,
        sequence=before.sequence if keeps_sequence else header.last_sequence,
        offset=batch.offset,
        is_transactional=header.is_transactional or before.is_transactional,
    )


def _is_unverified(batch: Captured, known: Known) -> bool:
    """Whether it was not the log that refused the batch.

    Its partition was not in the transaction; its epoch is old at the coordinator alone; or it is in sequence,
    but the leader remembers that the coordinator was asked about an earlier one (facts §2.5, §2.7).
    """
    header = read_header(batch.records) if len(batch.records) >= HEADER_SIZE else None
    if header is None or not header.has_producer_id:
        return False
    producer = known.get((batch.partition, header.producer_id), UNKNOWN)
    if not (producer.is_transactional or header.is_transactional):
        return False
    known[batch.partition, header.producer_id] = replace(producer, is_transactional=True)
    is_new_epoch = producer.epoch < header.producer_epoch
    expected = 0 if is_new_epoch else increment_sequence(producer.sequence, 1)
    return {
        "INVALID_TXN_STATE": header.is_transactional,
        "INVALID_PRODUCER_EPOCH": producer.epoch <= header.producer_epoch,
        "OUT_OF_ORDER_SEQUENCE_NUMBER": header.base_sequence == expected,
    }.get(batch.error or "", False)


def _log_ends(folder: Path) -> dict[int, dict[TopicPartition, int]]:
    found = json.loads((folder / LOG_ENDS).read_text())
    return {
        int(index): {TopicPartition(topic, partition): end for topic, partition, end in ends}
        for index, ends in found.items()
    }


def _markers(folder: Path, partition: TopicPartition) -> Iterator[Captured]:
    for path in sorted((folder / "data" / str(partition)).glob("*.log")):
        log = path.read_bytes()
        for batch in scan(log):
            if isinstance(batch.header, RecordBatchHeader) and batch.header.is_control:
                records = log[batch.position : batch.end]
                offset = batch.header.base_offset
                yield Captured(
                    partition=partition, records=records, error=None, offset=offset, label="marker"
                )


def write_capture(batches: Iterable[Captured], root: Path, random: Random, *, run: int = 0) -> None:
    """Objects of one to many batches, as a gateway that flushes now and then leaves them.

    A damaged batch has an object of its own: inside another its end would be unknown.
    """
    queues: dict[TopicPartition, list[bytes]] = defaultdict(list)
    for number, batch in enumerate(batches):
        held, is_damaged = queues[batch.partition], batch.label.startswith(DAMAGED)
        if held and is_damaged:
            _put(root, batch.partition, f"{run}-{number:08d}-before", held)
        held.append(batch.records)
        if is_damaged or random.random() < FLUSHED:
            _put(root, batch.partition, f"{run}-{number:08d}-upto", held)
    for partition, held in queues.items():
        if held:
            _put(root, partition, f"{run}-rest", held)


def _put(root: Path, partition: TopicPartition, name: str, batches: list[bytes]) -> None:
    directory = root / str(partition)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.batches").write_bytes(b"".join(batches))
    batches.clear()
