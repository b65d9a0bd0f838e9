"""The replayed coordinator's records against the recorded `__transaction_state`, id by id."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from spark_jobs.kafka.formats.transaction_state import TransactionLogValue
from tests.recordings.difference import Difference, fields, values
from tests.recordings.transaction_log import TransactionLog, TransactionRecord, recorded_records

CLOCK_FIELDS = frozenset({"transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms"})


def compare_transaction_log(log: TransactionLog) -> Iterator[Difference]:
    """Each id's records in order, in the partition that its name hashes to."""
    yield from _compare_places(log)
    for transactional_id in sorted(log.recorded.keys() | log.written.keys()):
        recorded = log.recorded.get(transactional_id, ())
        written = log.written.get(transactional_id, [])
        compare = _compare_survivors if log.is_cleaned(transactional_id) else _compare_all
        yield from compare(f"__transaction_state {transactional_id}", recorded, written)


def _compare_places(log: TransactionLog) -> Iterator[Difference]:
    for number, partition in log.leaders.items():
        ids = {record.transactional_id for record in recorded_records(partition)}
        for transactional_id in sorted(ids):
            where = f"__transaction_state {transactional_id}"
            yield from values(where, "partition", number, log.partition_of(transactional_id))


def _compare_all(
    where: str, recorded: Sequence[TransactionRecord], written: Sequence[TransactionRecord]
) -> Iterator[Difference]:
    for index, (theirs, ours) in enumerate(zip(recorded, written, strict=False)):
        yield from fields(f"{where} record {index}", value_fields(theirs.value), value_fields(ours.value))
    yield from values(where, "records", len(recorded), len(written))


def _compare_survivors(
    where: str, recorded: Sequence[TransactionRecord], written: Sequence[TransactionRecord]
) -> Iterator[Difference]:
    """Every survivor was written, in this order, and the newest is among them."""
    ours = [_without_clock(record.value) for record in written]
    position = 0
    for index, record in enumerate(recorded):
        theirs = _without_clock(record.value)
        if theirs not in ours[position:]:
            yield Difference(where=where, field=f"record {index}", recorded=theirs, replayed="never written")
            return
        position = ours.index(theirs, position) + 1
    if recorded and ours:
        yield from values(where, "newest record", _without_clock(recorded[-1].value), ours[-1])


def value_fields(value: TransactionLogValue | None) -> Mapping[str, object]:
    """The fields of a value, its partitions as a set; a tombstone has none."""
    if value is None:
        return {"tombstone": True}
    is_null = value.transaction_partitions is None
    partitions = None if is_null else sorted(value.topic_partitions)
    return {**asdict(value), "transaction_partitions": partitions}


def _without_clock(value: TransactionLogValue | None) -> Mapping[str, object]:
    return {name: field for name, field in value_fields(value).items() if name not in CLOCK_FIELDS}
