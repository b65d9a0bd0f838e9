"""Records of Kafka's own topics with their meaning beside the raw bytes, one line each."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from spark_jobs.inspection.partition import CONSUMER_OFFSETS, TRANSACTION_STATE
from spark_jobs.inspection.record_lines import json_line
from spark_jobs.inspection.records import Complain, RecordStyle, Rows, batch_records
from spark_jobs.inspection.segments import Segment
from spark_jobs.inspection.timestamps import iso_timestamp
from spark_jobs.kernels.line_widths import OFFSET_WIDTH, TIMESTAMP_WIDTH
from spark_jobs.protocol import consumer_offsets, coordinator_log
from spark_jobs.protocol.coordinator_log import TransactionState
from spark_jobs.protocol.errors import CorruptData
from spark_jobs.protocol.records import LogRecord

Decoder = Callable[[LogRecord], dict[str, Any]]


def decoded_lines(
    segment: Segment, rows: Rows, style: RecordStyle, complain: Complain, decode: Decoder
) -> Iterator[bytes]:
    """As `records.record_lines`, with what each record means."""
    for record in batch_records(segment, rows, complain):
        try:
            meaning = json.dumps(decode(record), default=_plain)
        except CorruptData as problem:
            complain(problem)
            continue
        yield (_json(record, style, meaning) if style.as_json else _text(record, meaning)).encode()


def _json(record: LogRecord, style: RecordStyle, meaning: str) -> str:
    line = json_line(record, style.prefix).removesuffix("}\n")
    return f'{line}, "decoded": {meaning}}}\n'


def _text(record: LogRecord, meaning: str) -> str:
    return (
        f"{record.offset:>{OFFSET_WIDTH}}  {iso_timestamp(record.timestamp):<{TIMESTAMP_WIDTH}}  {meaning}\n"
    )


def _plain(value: object) -> object:
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _decode_transaction(record: LogRecord) -> dict[str, Any]:
    where = f"offset {record.offset}"
    key = coordinator_log.read_key(record.key or b"", source=where)
    value = None if record.value is None else coordinator_log.read_value(record.value, source=where)
    return {"key": _fields(key), "value": None if value is None else _fields(value)}


def _decode_offset(record: LogRecord) -> dict[str, Any]:
    where = f"offset {record.offset}"
    key = consumer_offsets.read_key(record.key or b"", source=where)
    is_commit = isinstance(key, consumer_offsets.OffsetCommitKey) and record.value is not None
    value = consumer_offsets.read_value(record.value or b"", source=where) if is_commit else None
    return {"key": _fields(key), "value": None if value is None else _fields(value)}


def _fields(value: Any) -> dict[str, Any]:
    """The fields under their names; a state under the name that Kafka's tools print."""
    return {
        name: field.label if isinstance(field, TransactionState) else field
        for name, field in asdict(value).items()
    }


DECODERS: dict[str | None, Decoder] = {
    TRANSACTION_STATE: _decode_transaction,
    CONSUMER_OFFSETS: _decode_offset,
}
