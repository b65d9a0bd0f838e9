"""Long listings such as the batches of a segment: one line per row, columns of numbers as text or JSON.

This is the plain writer; `kernels.cells` writes the same bytes for millions of rows.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from spark_jobs.inspect.record_lines import iso_timestamp
from spark_jobs.kafka.formats.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    TRANSACTIONAL_FLAG,
)
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.reading.batch_labels import (
    CODECS,
    CONTROL_TYPES,
    LOWEST_CONTROL_TYPE,
    TIMESTAMP_TYPES,
    last_sequences,
    timestamp_types,
)
from spark_jobs.reading.in_order import in_order

_ROWS_AT_A_TIME = 1 << 15
_FLAG = ("no", "yes")


class CellKind(IntEnum):
    """How a column's numbers are written."""

    NUMBER = 0
    LABEL = 1
    """The number is an index into the column's labels."""
    TIMESTAMP = 2
    """Milliseconds since 1970, written as UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingColumn:
    """One column of a listing; `before` is in front of each cell."""

    name: str
    values: npt.NDArray[np.int64]
    kind: CellKind = CellKind.NUMBER
    labels: tuple[str, ...] = ()
    null: int | None = None
    """The number that represents a missing value, written as `nothing`."""
    nothing: str = ""
    before: str = ""
    width: int = 0
    """Cells are padded to this width: on the left if it is positive, on the right if negative."""


def number(name: str, values: npt.NDArray[np.generic], *, null: int | None = None) -> ListingColumn:
    return ListingColumn(name=name, values=values.astype(np.int64), null=null)


def label(name: str, values: npt.NDArray[np.generic], labels: tuple[str, ...]) -> ListingColumn:
    return ListingColumn(name=name, values=values.astype(np.int64), kind=CellKind.LABEL, labels=labels)


def timestamp(name: str, values: npt.NDArray[np.generic]) -> ListingColumn:
    return ListingColumn(name=name, values=values.astype(np.int64), kind=CellKind.TIMESTAMP)


def as_json(columns: Sequence[ListingColumn], **constants: str) -> tuple[ListingColumn, ...]:
    """The columns laid out as members of one object per row, the constants first."""
    opening = "{" + "".join(f"{json.dumps(key)}: {json.dumps(value)}, " for key, value in constants.items())
    return tuple(
        replace(
            column,
            before=f"{', ' if index else opening}{json.dumps(column.name)}: ",
            nothing="null",
            labels=tuple(_json_label(text) for text in column.labels),
            kind=CellKind.NUMBER if column.kind is CellKind.TIMESTAMP else column.kind,
        )
        for index, column in enumerate(columns)
    )


def _json_label(text: str) -> str:
    return {"": "null", "no": "false", "yes": "true"}.get(text, json.dumps(text))


def as_text(columns: Sequence[ListingColumn]) -> tuple[ListingColumn, ...]:
    """The columns padded to their widest cell: numbers to the right, words to the left."""
    return tuple(replace(column, before="  ", width=_width(column)) for column in columns)


def _width(column: ListingColumn) -> int:
    if column.kind is CellKind.NUMBER:
        ends = (column.values.min(), column.values.max()) if column.values.size else ()
        return max([len(column.name), *(len(str(end)) for end in ends)])
    longest = max(map(len, column.labels), default=len(iso_timestamp(0)))
    return -max(len(column.name), longest)


def heading(columns: Sequence[ListingColumn]) -> str:
    """The names above a text listing."""
    return "".join(column.before + _pad(column.name, column.width) for column in columns)


def format_rows(columns: Sequence[ListingColumn], after: str, *, fast: bool) -> Iterator[bytes]:
    """One line per row, `after` at the end of each; many rows per piece."""
    parts = _parts(columns)
    if not fast:
        return (format_part_plainly(part, after) for part in parts)
    return in_order(lambda part: _format_part(part, after), parts)


def _parts(columns: Sequence[ListingColumn]) -> Iterator[list[ListingColumn]]:
    """Some rows of all columns at a time."""
    for start in range(0, columns[0].values.size, _ROWS_AT_A_TIME):
        part = slice(start, start + _ROWS_AT_A_TIME)
        yield [replace(column, values=column.values[part]) for column in columns]


def format_part_plainly(columns: Sequence[ListingColumn], after: str) -> bytes:
    cells = (
        [column.before + _pad(_cell(column, value), column.width) for value in column.values.tolist()]
        for column in columns
    )
    return "".join("".join(row) + after for row in zip(*cells, strict=True)).encode()


def _format_part(columns: Sequence[ListingColumn], after: str) -> bytes:
    """The same bytes through the compiled writer."""
    from spark_jobs.kernels.cells import RowLayout, pack_texts, write_rows  # noqa: PLC0415 — loads numba

    labels = [(column.nothing, *column.labels) for column in columns]
    layout = RowLayout(
        kinds=np.array([column.kind for column in columns], dtype=np.int64),
        widths=np.array([column.width for column in columns], dtype=np.int64),
        nullable=np.array([column.null is not None for column in columns]),
        nulls=np.array([column.null or 0 for column in columns], dtype=np.int64),
        before=pack_texts([*(column.before.encode() for column in columns), after.encode()]),
        labels=pack_texts([text.encode() for group in labels for text in group]),
        first_labels=np.cumsum([0, *(len(group) for group in labels[:-1])], dtype=np.int64),
    )
    return write_rows(np.stack([column.values for column in columns]), layout).tobytes()


def _cell(column: ListingColumn, value: int) -> str:
    if value == column.null:
        return column.nothing
    if column.kind is CellKind.LABEL:
        return column.labels[value]
    return iso_timestamp(value) if column.kind is CellKind.TIMESTAMP else str(value)


def _pad(text: str, width: int) -> str:
    return text.rjust(width) if width > 0 else text.ljust(-width)


def all_fields(batches: HeaderColumns) -> tuple[ListingColumn, ...]:
    """All fields of a header and what is derived from them, under Kafka's names."""
    attributes = batches.attributes
    horizon = np.where((attributes & DELETE_HORIZON_FLAG) != 0, batches.base_timestamp, -1)
    return (
        number("position", batches.position),
        number("size", batches.size),
        number("magic", batches.magic),
        number("base_offset", batches.base_offset),
        number("last_offset", batches.base_offset + batches.last_offset_delta),
        number("record_count", batches.record_count, null=-1),
        label("codec", attributes & CODEC_MASK, CODECS),
        label("timestamp_type", timestamp_types(batches), TIMESTAMP_TYPES),
        number("base_timestamp", batches.base_timestamp),
        number("max_timestamp", batches.max_timestamp),
        number("delete_horizon", horizon, null=-1),
        number("partition_leader_epoch", batches.partition_leader_epoch),
        number("producer_id", batches.producer_id),
        number("producer_epoch", batches.producer_epoch),
        number("base_sequence", batches.base_sequence),
        number("last_sequence", last_sequences(batches)),
        label("is_transactional", (attributes & TRANSACTIONAL_FLAG) != 0, _FLAG),
        label("is_control", (attributes & CONTROL_FLAG) != 0, _FLAG),
        label("control_type", batches.control_type - LOWEST_CONTROL_TYPE, CONTROL_TYPES),
        number("coordinator_epoch", batches.coordinator_epoch),
        number("crc", batches.crc),
        label("crc_ok", batches.crc_ok, _FLAG),
    )


def reading_fields(batches: HeaderColumns) -> tuple[ListingColumn, ...]:
    """What fits on a line and a reader looks for first."""
    control = (batches.attributes & CONTROL_FLAG) != 0
    transactional = (batches.attributes & TRANSACTIONAL_FLAG) != 0
    what = np.where(control, batches.control_type - LOWEST_CONTROL_TYPE, len(CONTROL_TYPES) + transactional)
    return (
        number("position", batches.position),
        number("offset", batches.base_offset),
        number("last", batches.base_offset + batches.last_offset_delta),
        number("records", batches.record_count, null=-1),
        number("bytes", batches.size),
        label("codec", batches.attributes & CODEC_MASK, CODECS),
        timestamp("max timestamp", batches.max_timestamp),
        number("producer", batches.producer_id, null=-1),
        number("epoch", batches.producer_epoch, null=-1),
        number("sequence", batches.base_sequence, null=-1),
        number("last", last_sequences(batches), null=-1),
        label("what", what, (*CONTROL_TYPES, "", "transactional")),
        label("crc", batches.crc_ok, ("WRONG", "ok")),
    )
