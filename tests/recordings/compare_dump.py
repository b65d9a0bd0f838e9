"""Our reading of every recorded file against what `kafka-dump-log` printed about it."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

from spark_jobs.kafka.formats import consumer_offsets
from spark_jobs.kafka.formats import transaction_state as coordinator_log
from spark_jobs.kafka.formats.consumer_offsets import OffsetCommitKey
from spark_jobs.kafka.formats.indexes import read_txn_index
from spark_jobs.kafka.formats.log_files import LogFileKind, parse_file_name
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.formats.records import LogRecord, read_records
from spark_jobs.kafka.formats.snapshot import read_snapshot
from spark_jobs.kafka.formats.transaction_state import TransactionLogKey
from spark_jobs.kafka.log.segment import scan_result
from tests.recordings import dump_text
from tests.recordings.coordinator_json import offset_key_json, offset_value_json, transaction_value_json
from tests.recordings.difference import Difference, values
from tests.recordings.dump_text import CoordinatorLine, DumpedFile
from tests.recordings.log_directory import OFFSETS_TOPIC, TRANSACTION_TOPIC, RecordedPartition

Lines = Iterable[str | CoordinatorLine]


def compare_dump(recorded: RecordedPartition, text: str) -> Iterator[Difference]:
    """Every file of the dump, line by line."""
    for dumped in dump_text.split_dump(text):
        where = f"dump of {recorded.topic_partition}/{dumped.name}"
        ours = _lines(recorded, dumped)
        theirs = dumped.text.split("\n")[:-1]
        if recorded.topic_partition.topic in VALUES and ours is not None:
            yield from _compare_coordinator_lines(where, theirs, ours)
        elif ours is not None:
            yield from _compare_lines(where, theirs, "\n".join(map(str, ours)).split("\n"))


def _lines(recorded: RecordedPartition, dumped: DumpedFile) -> Lines | None:
    """What the tool should have printed; None for files that are not compared."""
    file = parse_file_name(dumped.name)
    if file is None:
        return None
    if file.kind is LogFileKind.LOG:
        return _log_lines(recorded, file.offset)
    if file.kind is LogFileKind.SNAPSHOT:
        return dump_text.snapshot_lines(read_snapshot(recorded.snapshots[file.offset], source=dumped.name))
    if file.kind is LogFileKind.TXN_INDEX:
        return dump_text.txn_index_lines(
            read_txn_index(recorded.txn_indexes[file.offset], source=dumped.name)
        )
    return None


def _log_lines(recorded: RecordedPartition, base_offset: int) -> Iterator[str | CoordinatorLine]:
    data = recorded.segments[base_offset]
    result = scan_result(data, check_crc=False)
    yield dump_text.start_line(base_offset)
    for batch in result.batches:
        if isinstance(batch.header, RecordBatchHeader):
            stored = data[batch.position : batch.end]
            yield dump_text.batch_line(batch.position, batch.header, stored)
            for record in read_records(stored):
                yield _record_line(recorded, batch.header, record, stored)
    if result.valid_bytes < len(data):
        yield dump_text.trailing_line(len(data) - result.valid_bytes, base_offset)


def _record_line(
    recorded: RecordedPartition, header: RecordBatchHeader, record: LogRecord, batch: bytes
) -> str | CoordinatorLine:
    as_json = VALUES.get(recorded.topic_partition.topic)
    if as_json is None or header.is_control:
        return dump_text.record_line(header, record, batch)
    return dump_text.coordinator_line(record, *as_json(record))


def _compare_lines(where: str, theirs: list[str], ours: list[str]) -> Iterator[Difference]:
    """The first line that differs; later ones would only repeat it."""
    ours = [] if ours == [""] else ours
    for number, (line, expected) in enumerate(zip_longest(theirs, ours), start=1):
        if line != expected:
            yield from values(where, f"line {number}", line, expected)
            return


def _compare_coordinator_lines(where: str, theirs: list[str], ours: Lines) -> Iterator[Difference]:
    for number, (line, expected) in enumerate(zip_longest(theirs, ours), start=1):
        found = line if line is None else dump_text.read_coordinator_line(line)
        if isinstance(found, CoordinatorLine) and isinstance(expected, CoordinatorLine):
            yield from values(where, f"line {number}", found.record, expected.record)
            yield from values(where, f"key in line {number}", found.key, expected.key)
            if expected.value is not UNREAD:
                yield from values(where, f"value in line {number}", found.value, expected.value)
        else:
            yield from values(where, f"line {number}", found, expected)


UNREAD = object()
"""The value of a group membership record: it does not matter for exactly-once, and is not decoded."""


def _transaction_json(record: LogRecord) -> tuple[Any, Any]:
    key = coordinator_log.read_key(record.key or b"")
    if not isinstance(key, TransactionLogKey):
        return None, UNREAD
    shown = {"type": "0", "data": {"transactionalId": key.transactional_id}}
    if record.value is None:
        return shown, None
    version, value = coordinator_log.value_version(record.value), coordinator_log.read_value(record.value)
    return shown, {"version": str(version), "data": transaction_value_json(value)}


def _offsets_json(record: LogRecord) -> tuple[Any, Any]:
    key = consumer_offsets.read_key(record.key or b"")
    if not isinstance(key, OffsetCommitKey):
        group = getattr(key, "group", None)
        return {"type": str(key.record_type), "data": {"group": group}}, UNREAD
    shown = {"type": str(key.record_type), "data": offset_key_json(key)}
    if record.value is None:
        return shown, None
    version, value = coordinator_log.value_version(record.value), consumer_offsets.read_value(record.value)
    return shown, {"version": str(version), "data": offset_value_json(value, version)}


VALUES = {TRANSACTION_TOPIC: _transaction_json, OFFSETS_TOPIC: _offsets_json}
"""Topics whose records the tool prints as JSON, and how we read them."""
