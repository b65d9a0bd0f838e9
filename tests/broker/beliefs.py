"""What Onceover believes about partitions and producers, beside what a broker says."""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.broker.admin import READ_COMMITTED, ActiveProducer, Tp, offsets, producers
from tests.broker.wire import Connection

Row = dict[str, Any]


def differing_producers(
    connection: Connection, partitions: Sequence[Tp], rows: Sequence[Row]
) -> Iterator[str]:
    """DescribeProducers of every partition against the newest rows of the table `producers`."""
    newest: dict[tuple[str, int, int], Row] = {}
    for row in sorted(rows, key=lambda row: str(row["run_date"])):
        newest[row["topic"], row["partition"], row["producer_id"]] = row
    for topic, partition in partitions:
        theirs = producers(connection, (topic, partition))
        ours = {key[2]: _as_described(row) for key, row in newest.items() if key[:2] == (topic, partition)}
        for producer_id in sorted({*theirs, *ours}):
            told, believed = theirs.get(producer_id), ours.get(producer_id)
            if told != believed:
                yield f"{topic}-{partition}: broker {told}, Onceover {believed}"


def _as_described(row: Row) -> ActiveProducer:
    def number(name: str) -> int:
        return -1 if row[name] is None else int(row[name])

    return ActiveProducer(
        producer_id=row["producer_id"],
        producer_epoch=number("producer_epoch"),
        last_sequence=number("last_sequence"),
        last_timestamp=number("last_timestamp"),
        coordinator_epoch=number("coordinator_epoch"),
        txn_first_offset=number("txn_first_offset"),
    )


def differing_offsets(connection: Connection, partitions: Sequence[Tp], rows: Sequence[Row]) -> Iterator[str]:
    """Log end and last stable offset against the table `resolved_partitions` of a night."""
    ours = {(row["topic"], row["partition"]): row for row in rows}
    ends, stable = offsets(connection, partitions), offsets(connection, partitions, isolation=READ_COMMITTED)
    for tp in partitions:
        told = ends[tp], stable[tp]
        believed = ours[tp]["log_end_offset"], ours[tp]["last_stable_offset"]
        if told != believed:
            yield f"{tp}: end and last stable offset: broker {told}, Onceover {believed}"


def differing_records(truth: Sequence[Row], published: Sequence[Row]) -> Iterator[str]:
    """Records that only one side has, or that are not the same in every field; both are in order."""
    theirs = {(row["topic"], row["partition"], row["offset"]): row for row in truth}
    ours = {(row["topic"], row["partition"], row["offset"]): row for row in published}
    if len(ours) != len(published):
        yield f"{len(published) - len(ours)} records are published twice"
    for key in sorted({*theirs, *ours}):
        if theirs.get(key) != ours.get(key):
            yield f"{key}: consumer {theirs.get(key)}, Onceover {ours.get(key)}"
