"""One line per record, as JSON or as text: previews of bytes, timestamps, no terminal control sequences.

These are the plain writers, batch by batch; `fast_records` writes the same bytes in bulk with
`kernels.record_lines`.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from spark_jobs.inspect.segment_files import Segment
from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.legacy import read_legacy_records
from spark_jobs.kafka.formats.record_batch import MAGIC_V2
from spark_jobs.kafka.formats.records import Header, LogRecord, read_records
from spark_jobs.kernels.line_widths import (
    HEADER_WIDTH,
    HEADERS_SHOWN,
    KEY_WIDTH,
    OFFSET_WIDTH,
    TIMESTAMP_WIDTH,
    VALUE_WIDTH,
)
from spark_jobs.reading.plain import FAST_FROM

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
Rows = npt.NDArray[np.int64]
OnCorrupt = Callable[[CorruptData], None]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordStyle:
    """How records become lines; `topic` and `partition` are None if the path does not contain them."""

    topic: str | None
    partition: int | None
    as_json: bool
    first_offset: int = 0
    """Records below it, deleted by their owner, are no longer shown."""

    @property
    def prefix(self) -> str:
        return json_prefix(self.topic, self.partition)


def record_lines(
    segment: Segment, rows: Rows, style: RecordStyle, on_corrupt: OnCorrupt, *, fast: bool | None = None
) -> Iterator[bytes | memoryview]:
    """Lines of all records of the batches at `rows`; a batch whose records are damaged goes to `on_corrupt`.

    A piece of lines is valid until the next one is requested.
    """
    if len(segment.data) >= FAST_FROM if fast is None else fast:
        from spark_jobs.inspect.fast_records import fast_lines  # noqa: PLC0415 — loads numba

        return fast_lines(segment, rows, style, on_corrupt)
    return plain_lines(segment, rows, style, on_corrupt)


def plain_lines(segment: Segment, rows: Rows, style: RecordStyle, on_corrupt: OnCorrupt) -> Iterator[bytes]:
    """One batch after the other, record by record."""
    for record in batch_records(segment, rows, on_corrupt):
        if record.offset >= style.first_offset:
            line = json_line(record, style.prefix) if style.as_json else text_line(record)
            yield line.encode()


def batch_records(segment: Segment, rows: Rows, on_corrupt: OnCorrupt) -> Iterator[LogRecord]:
    """The records of the batches at `rows` as values."""
    with memoryview(segment.data) as view:
        for row in rows.tolist():
            try:
                yield from _read_batch(segment, view, row)
            except CorruptData as error:
                on_corrupt(error)


def _read_batch(segment: Segment, view: memoryview, row: int) -> Iterator[LogRecord]:
    position, size = int(segment.batches.position[row]), int(segment.batches.size[row])
    read = read_records if segment.batches.magic[row] >= MAGIC_V2 else read_legacy_records
    return iter(read(view[position : position + size], source=segment.path.name, position=position))
