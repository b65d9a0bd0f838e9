"""One line per record: JSON in the form that consumers of recordings know, or text for people.

These are the plain writers; `kernels.record_lines` writes the same bytes for millions of records.
"""

import json
from base64 import b64encode

from spark_jobs.inspection.preview import preview, preview_text
from spark_jobs.inspection.timestamps import iso_timestamp
from spark_jobs.kernels.line_widths import (
    HEADER_WIDTH,
    HEADERS_SHOWN,
    KEY_WIDTH,
    OFFSET_WIDTH,
    TIMESTAMP_WIDTH,
    VALUE_WIDTH,
)
from spark_jobs.protocol.records import Header, LogRecord

TEXT_HEADING = "  ".join(
    (
        "offset".rjust(OFFSET_WIDTH),
        "timestamp".ljust(TIMESTAMP_WIDTH),
        "key".ljust(KEY_WIDTH + 1),
        "value",
        "{headers}",
    )
)


def json_prefix(topic: str | None, partition: int | None) -> str:
    """A JSON line up to its offset: all that the records of a partition share."""
    return f'{{"topic": {json.dumps(topic)}, "partition": {json.dumps(partition)}, "offset": '


def json_line(record: LogRecord, prefix: str) -> str:
    """The record as one JSON object; bytes in base64, null as null."""
    headers = ", ".join(f"[{json.dumps(header.key)}, {_base64(header.value)}]" for header in record.headers)
    return (
        f'{prefix}{record.offset}, "timestamp": {record.timestamp}, '
        f'"timestamp_type": "{record.timestamp_type}", "key": {_base64(record.key)}, '
        f'"value": {_base64(record.value)}, "headers": [{headers}]}}\n'
    )


def _base64(data: bytes | None) -> str:
    return "null" if data is None else f'"{b64encode(data).decode()}"'


def text_line(record: LogRecord) -> str:
    """The record as a line to read: beginnings of key and value, some headers."""
    cells = (
        f"{record.offset:>{OFFSET_WIDTH}}",
        f"{iso_timestamp(record.timestamp):<{TIMESTAMP_WIDTH}}",
        f"{preview(record.key, KEY_WIDTH):<{KEY_WIDTH + 1}}",
        preview(record.value, VALUE_WIDTH),
        *_headers(record.headers),
    )
    return "  ".join(cells) + "\n"


def _headers(headers: tuple[Header, ...]) -> tuple[str, ...]:
    shown = [_header(header) for header in headers[:HEADERS_SHOWN]]
    more = [f"+{len(headers) - HEADERS_SHOWN}"] if len(headers) > HEADERS_SHOWN else []
    return (f"{{{' '.join(shown + more)}}}",) if headers else ()


def _header(header: Header) -> str:
    return f"{preview_text(header.key, HEADER_WIDTH)}={preview(header.value, HEADER_WIDTH)}"
