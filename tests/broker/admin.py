"""Raw admin requests to a broker: log ends, producers, transactions, DeleteRecords."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.broker.wire import (
    DELETE_RECORDS,
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_OFFSETS,
    LIST_TRANSACTIONS,
    WRITE_TXN_MARKERS,
    Connection,
    Reader,
    body,
    reply_reader,
)

LATEST, EARLIEST = -1, -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
Tp = tuple[str, int]


class BrokerRefused(Exception):
    """An answer with an error where none was expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A line of DescribeProducers, in the broker's own values: -1 for what is not there."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    txn_first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorState:
    """A line of DescribeTransactions."""

    transactional_id: str
    state: str
    timeout_ms: int
    start_timestamp: int
    producer_id: int
    producer_epoch: int
    partitions: tuple[str, ...]


def offsets(
    connection: Connection, tps: Sequence[Tp], *, isolation: int = READ_UNCOMMITTED, at: int = LATEST
) -> dict[Tp, int]:
    """ListOffsets v7: the high watermark, the last stable offset or the log start, as asked."""
    version = 7
    request = body(LIST_OFFSETS, version).put("ib", -1, isolation).count(len(tps))
    for topic, partition in tps:
        request.text(topic).count(1).put("iiq", partition, -1, at).tags().tags()
    _, received = connection.ask(LIST_OFFSETS, version, request.tags())
    reader = reply_reader(LIST_OFFSETS, version, received or b"")
    reader.take("i")
    return dict(_listed_offsets(reader))


def _listed_offsets(reader: Reader) -> Iterator[tuple[Tp, int]]:
    for _ in range(reader.count()):
        topic = reader.text() or ""
        for _ in range(reader.count()):
            partition, error, _timestamp, offset, _epoch = reader.take("ihqqi")
            reader.tags()
            _expect_none(error, f"offsets of {topic}-{partition}")
            yield (topic, partition), offset
        reader.tags()


def producers(connection: Connection, tp: Tp) -> dict[int, ActiveProducer]:
    """DescribeProducers of one partition, by producer id."""
    topic, partition = tp
    request = body(DESCRIBE_PRODUCERS, 0).count(1).text(topic).count(1).put("i", partition).tags().tags()
    _, received = connection.ask(DESCRIBE_PRODUCERS, 0, request)
    reader = reply_reader(DESCRIBE_PRODUCERS, 0, received or b"")
    reader.take("i")
    reader.count(), reader.text(), reader.count()
    _, error = reader.take("ih")
    message = reader.text()
    _expect_none(error, f"producers of {topic}-{partition}: {message}")
    return {found.producer_id: found for found in (_producer(reader) for _ in range(reader.count()))}


def _producer(reader: Reader) -> ActiveProducer:
    producer_id, epoch, sequence, timestamp, coordinator_epoch, first = reader.take("qiiqiq")
    reader.tags()
    return ActiveProducer(
        producer_id=producer_id,
        producer_epoch=epoch,
        last_sequence=sequence,
        last_timestamp=timestamp,
        coordinator_epoch=coordinator_epoch,
        txn_first_offset=first,
    )


def transactional_ids(connection: Connection) -> list[str]:
    """ListTransactions without a filter."""
    _, received = connection.ask(LIST_TRANSACTIONS, 0, body(LIST_TRANSACTIONS, 0).count(0).count(0).tags())
    reader = reply_reader(LIST_TRANSACTIONS, 0, received or b"")
    _, error = reader.take("ih")
    _expect_none(error, "transactions")
    for _ in range(reader.count()):
        reader.text()
    found = []
    for _ in range(reader.count()):
        found.append(reader.text() or "")
        reader.take("q"), reader.text()
        reader.tags()
    return found


def transaction(connection: Connection, transactional_id: str) -> CoordinatorState:
    """DescribeTransactions of one id."""
    request = body(DESCRIBE_TRANSACTIONS, 0).count(1).text(transactional_id).tags()
    _, received = connection.ask(DESCRIBE_TRANSACTIONS, 0, request)
    reader = reply_reader(DESCRIBE_TRANSACTIONS, 0, received or b"")
    reader.take("i"), reader.count()
    _expect_none(reader.take("h"), f"transaction of {transactional_id}")
    name, state = reader.text(), reader.text()
    timeout, start, producer_id, epoch = reader.take("iqqh")
    return CoordinatorState(
        transactional_id=name or "",
        state=state or "",
        timeout_ms=timeout,
        start_timestamp=start,
        producer_id=producer_id,
        producer_epoch=epoch,
        partitions=tuple(sorted(_listed_partitions(reader))),
    )


def _listed_partitions(reader: Reader) -> Iterator[str]:
    for _ in range(reader.count()):
        topic = reader.text()
        for _ in range(reader.count()):
            yield f"{topic}-{reader.take('i')}"
        reader.tags()


def abort_hanging(connection: Connection, tp: Tp, producer: ActiveProducer) -> None:
    """What `kafka-transactions abort` does about a transaction that no coordinator will end (facts §3.9)."""
    topic, partition = tp
    request = body(WRITE_TXN_MARKERS, 1).count(1).put("qhb", producer.producer_id, producer.producer_epoch, 0)
    request.count(1).text(topic).count(1).put("i", partition).tags()
    request.put("i", max(producer.coordinator_epoch, 0)).tags().tags()
    _, received = connection.ask(WRITE_TXN_MARKERS, 1, request)
    reader = reply_reader(WRITE_TXN_MARKERS, 1, received or b"")
    reader.count(), reader.take("q"), reader.count(), reader.text(), reader.count()
    _, error = reader.take("ih")
    _expect_none(error, f"abort of {producer} on {topic}-{partition}")


def delete_records(connection: Connection, tp: Tp, offset: int) -> int:
    """DeleteRecords of one partition; returns where its log starts then."""
    topic, partition = tp
    request = body(DELETE_RECORDS, 2).count(1).text(topic).count(1).put("iq", partition, offset)
    _, received = connection.ask(DELETE_RECORDS, 2, request.tags().tags().put("i", 30000).tags())
    reader = reply_reader(DELETE_RECORDS, 2, received or b"")
    reader.take("i")
    reader.count(), reader.text(), reader.count()
    _, low_watermark, error = reader.take("iqh")
    _expect_none(error, f"records of {topic}-{partition} before {offset}")
    return int(low_watermark)


def _expect_none(error: int, what: str) -> None:
    if error:
        raise BrokerRefused(f"{what}: error {error}")
