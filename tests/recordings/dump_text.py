"""Kafka's files as `kafka-dump-log` prints them (facts §1.18), made from our own reading of them."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from spark_jobs.kafka.formats.control_record import EndTransactionMarker, read_marker
from spark_jobs.kafka.formats.indexes import AbortedTxn
from spark_jobs.kafka.formats.log_files import LogFileKind, segment_file_name
from spark_jobs.kafka.formats.record_batch import CRC_START, Codec, RecordBatchHeader, crc32c
from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kafka.producers.producer_state import ProducerStateEntry

FILE_LINE = re.compile(r"^Dumping (?P<path>.+)\n", re.MULTILINE)
REMARKS = re.compile(
    r"^(Non-consecutive offsets in|Mismatches in|Index timestamp mismatch|Found timestamp) ?", re.MULTILINE
)
RECORD_LINE = re.compile(r"^(?P<record>\| .+? headerKeys: \[[^]]*\])(?: key: (?P<rest>.*))?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedFile:
    """What the tool printed about one file."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLine:
    """A record of a coordinator's log: the tool prints its key and value as JSON."""

    record: str
    key: Any
    value: Any


def split_dump(text: str) -> Iterator[DumpedFile]:
    """The files of one dump, without the tool's closing remarks about offsets."""
    starts = list(FILE_LINE.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    for start, end in zip(starts, ends, strict=True):
        body = text[start.end() : end]
        remarks = REMARKS.search(body)
        yield DumpedFile(
            name=start["path"].rpartition("/")[2], text=body[: remarks.start()] if remarks else body
        )


def start_line(base_offset: int) -> str:
    """How the lines about a `.log` file begin."""
    return f"Log starting offset: {base_offset}"


def trailing_line(size: int, base_offset: int) -> str:
    """How they end if bytes are left that are no whole batch."""
    return f"Found {size} invalid bytes at the end of {segment_file_name(base_offset, LogFileKind.LOG)}"


def batch_line(position: int, header: RecordBatchHeader, data: bytes) -> str:
    fields: dict[str, object] = {
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.record_count,
        "baseSequence": header.base_sequence,
        "lastSequence": header.last_sequence,
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": _bool(header.is_transactional),
        "isControl": _bool(header.is_control),
        "deleteHorizonMs": _optional(header.base_timestamp if header.has_delete_horizon else None),
        "position": position,
        str(header.timestamp_type): header.max_timestamp,
        "size": header.size,
        "magic": header.magic,
        "compresscodec": Codec(header.codec_id).name.lower(),
        "crc": header.crc,
        "isvalid": _bool(crc32c(data[CRC_START:]) == header.crc),
    }
    return _line(fields)


def record_line(header: RecordBatchHeader, record: LogRecord, batch: bytes) -> str:
    line = _record_fields(record)
    if header.is_control:
        marker = read_marker(batch)
        return f"{line}{_marker_text(marker)}"
    key = "" if record.key is None else f" key: {_text(record.key)}"
    payload = "" if record.value is None else f" payload: {_text(record.value)}"
    return f"{line}{key}{payload}"


def coordinator_line(record: LogRecord, key: Any, value: Any) -> CoordinatorLine:
    """Our reading of a coordinator's record."""
    return CoordinatorLine(record=_record_fields(record), key=key, value=value)


def read_coordinator_line(line: str) -> CoordinatorLine | str:
    """The tool's line about a coordinator's record, or the line itself if it is about something else."""
    found = RECORD_LINE.match(line)
    if found is None or found["rest"] is None:
        return line
    key, end = json.JSONDecoder().raw_decode(found["rest"])
    _, _, payload = found["rest"][end:].partition(" payload: ")
    return CoordinatorLine(record=found["record"], key=key, value=json.loads(payload) if payload else None)


def snapshot_lines(entries: Iterable[ProducerStateEntry]) -> Iterator[str]:
    """A `.snapshot` file: a line per producer with the one batch that is kept."""
    for entry in entries:
        fields: dict[str, object] = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": _optional(entry.current_txn_first_offset),
            "lastTimestamp": entry.last_timestamp,
        }
        for batch in entry.batches:
            fields |= {
                "firstSequence": batch.first_sequence,
                "lastSequence": batch.last_sequence,
                "lastOffset": batch.last_offset,
                "offsetDelta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
        yield _line(fields)


def txn_index_lines(entries: Iterable[AbortedTxn]) -> Iterator[str]:
    """A `.txnindex` file: a line per aborted transaction."""
    for entry in entries:
        yield _line(
            {
                "version": 0,
                "producerId": entry.producer_id,
                "firstOffset": entry.first_offset,
                "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            }
        )


def _marker_text(marker: EndTransactionMarker | None) -> str:
    if marker is None:
        return ""
    return f" endTxnMarker: {marker.control_type.name} coordinatorEpoch: {marker.coordinator_epoch}"


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _record_fields(record: LogRecord) -> str:
    names = ",".join(header.key for header in record.headers)
    fields: dict[str, object] = {
        "offset": record.offset,
        str(record.timestamp_type): record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": record.sequence,
        "headerKeys": f"[{names}]",
    }
    return f"| {_line(fields)}"


def _line(fields: dict[str, object]) -> str:
    return " ".join(f"{name}: {value}" for name, value in fields.items())


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
