"""One line per record, as JSON or as text: previews of bytes, timestamps, no terminal control sequences.

These are the plain writers; `kernels.record_lines` writes the same bytes for millions of records.
"""

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta

from spark_jobs.kafka.formats.records import Header, LogRecord
from spark_jobs.kernels.line_widths import (
    HEADER_WIDTH,
    HEADERS_SHOWN,
    KEY_WIDTH,
    OFFSET_WIDTH,
    TIMESTAMP_WIDTH,
    VALUE_WIDTH,
)

ELLIPSIS = "…"
ESCAPED_WIDTH = 16
"""Columns that one character takes at most: four bytes, each as `\\xNN`."""
_INVISIBLE = (
    (0x7F, 0xA0), (0xAD, 0xAD), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0xFEFF, 0xFEFF),
)  # fmt: skip
"""Ranges of characters that move, hide or reorder their surroundings."""
_ESCAPED = range(0xDC80, 0xDD00)
"""Where Python puts bytes that are no UTF-8."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_END = 253_402_300_800_000
"""The year 10000: a larger number is not a timestamp."""
TEXT_HEADING = "  ".join(
    (
        "offset".rjust(OFFSET_WIDTH),
        "timestamp".ljust(TIMESTAMP_WIDTH),
        "key".ljust(KEY_WIDTH + 1),
        "value",
        "{headers}",
    )
)


def preview(data: bytes | None, limit: int) -> str:
    """At most `limit` columns of `data`, and an ellipsis if there is more; null and empty are
    distinguished.
    """
    if data is None:
        return "null"
    return preview_text(data[: 4 * limit + 4].decode(errors="surrogateescape"), limit) if data else '""'


def preview_text(text: str, limit: int) -> str:
    """At most `limit` columns of `text`, and an ellipsis if there is more."""
    shown: list[str] = []
    used = 0
    for character in text:
        cell = _shown(character)
        if used + len(cell) > limit:
            return "".join(shown) + ELLIPSIS
        shown.append(cell)
        used += len(cell)
    return "".join(shown)


def _shown(character: str) -> str:
    point = ord(character)
    if point in _ESCAPED:
        return f"\\x{point - 0xDC00:02x}"
    if point >= 0x20 and not any(first <= point <= last for first, last in _INVISIBLE):
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode())


def iso_timestamp(milliseconds: int) -> str:
    """`2026-11-16T08:35:50.123Z`; a number outside the years 1970 to 9999 stays a number."""
    if not 0 <= milliseconds < _END:
        return str(milliseconds)
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds")[:-6] + "Z"


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
