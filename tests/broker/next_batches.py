"""The next batches of producers that a broker knows: the last batch again, the next one, a gap."""

from collections.abc import Iterable, Iterator

from spark_jobs.kafka.errors import KafkaError
from spark_jobs.kafka.formats.batch_builder import build_batch
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader, read_header
from spark_jobs.kafka.formats.records import Record
from spark_jobs.kafka.producers.sequence import increment_sequence
from spark_jobs.kafka.topic_partition import TopicPartition
from tests.broker import requests
from tests.broker.captures import Captured
from tests.broker.wire import Connection

GAP = 7


def last_accepted(batches: Iterable[Captured]) -> dict[tuple[TopicPartition, int], Captured]:
    """The newest batch in the log of every producer with an epoch and without transactions, by offset."""
    found: dict[tuple[TopicPartition, int], Captured] = {}
    transactional = set()
    for batch in batches:
        if batch.error not in {None, "NONE"}:
            continue
        header = read_header(batch.records)
        key = batch.partition, header.producer_id
        if header.is_transactional:
            transactional.add(key)
        elif (
            header.has_producer_id
            and header.producer_epoch >= 0
            and (key not in found or found[key].offset < batch.offset)
        ):
            found[key] = batch
    return {key: batch for key, batch in found.items() if key not in transactional}


def send_next(connection: Connection, batches: list[Captured]) -> Iterator[Captured]:
    """For every such producer three requests, as they were answered."""
    for (partition, _), batch in sorted(last_accepted(batches).items()):
        header = read_header(batch.records)
        first = increment_sequence(header.last_sequence, 1)
        for label, records in (
            ("again", batch.records),
            ("next", _batch(header, first)),
            ("gap", _batch(header, increment_sequence(first, GAP))),
        ):
            yield _sent(connection, partition, records, label)


def expected_errors(sent: Captured) -> str:
    return "OUT_OF_ORDER_SEQUENCE_NUMBER" if sent.label == "gap" else "NONE"


def _batch(header: RecordBatchHeader, first: int) -> bytes:
    return build_batch(
        records=[Record(offset_delta=0, timestamp_delta=0, key=b"k", value=b"next", headers=())],
        base_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=first,
    )


def _sent(connection: Connection, partition: TopicPartition, records: bytes, label: str) -> Captured:
    part = (partition.topic, partition.partition, records)
    reply = requests.produce(connection, [part], label=label, version=9, acks=-1)["parts"][0]["reply"]
    return Captured(
        partition=partition,
        records=records,
        error=KafkaError(reply["error_code"]).name,
        offset=reply["base_offset"],
        label=label,
    )
