"""Long listings, one line per row: columns of numbers laid out as text or JSON.

This is the plain writer; `kernels.row_text` writes the same bytes for millions of rows.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from spark_jobs.inspection.in_order import in_order
from spark_jobs.inspection.timestamps import iso_timestamp

_ROWS_AT_A_TIME = 1 << 15


class CellKind(IntEnum):
    """How a column's numbers are written."""

    NUMBER = 0
    LABEL = 1
    """The number is an index into the column's labels."""
    TIMESTAMP = 2
    """Milliseconds since 1970, written as UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
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


def number(name: str, values: npt.NDArray[np.generic], *, null: int | None = None) -> Column:
    return Column(name=name, values=values.astype(np.int64), null=null)


def label(name: str, values: npt.NDArray[np.generic], labels: tuple[str, ...]) -> Column:
    return Column(name=name, values=values.astype(np.int64), kind=CellKind.LABEL, labels=labels)


def timestamp(name: str, values: npt.NDArray[np.generic]) -> Column:
    return Column(name=name, values=values.astype(np.int64), kind=CellKind.TIMESTAMP)


def as_json(columns: Sequence[Column], **constants: str) -> tuple[Column, ...]:
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


def as_text(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns padded to their widest cell: numbers to the right, words to the left."""
    return tuple(replace(column, before="  ", width=_width(column)) for column in columns)


def _width(column: Column) -> int:
    if column.kind is CellKind.NUMBER:
        ends = (column.values.min(), column.values.max()) if column.values.size else ()
        return max([len(column.name), *(len(str(end)) for end in ends)])
    longest = max(map(len, column.labels), default=len(iso_timestamp(0)))
    return -max(len(column.name), longest)


def heading(columns: Sequence[Column]) -> str:
    """The names above a text listing."""
    return "".join(column.before + _pad(column.name, column.width) for column in columns)


def format_rows(columns: Sequence[Column], after: str, *, fast: bool) -> Iterator[bytes]:
    """One line per row, `after` at the end of each; many rows per piece."""
    parts = _parts(columns)
    if not fast:
        return (format_part_plainly(part, after) for part in parts)
    from spark_jobs.inspection.fast_rows import format_part  # noqa: PLC0415 — loads numba

    return in_order(lambda part: format_part(part, after), parts)


def _parts(columns: Sequence[Column]) -> Iterator[list[Column]]:
    """Some rows of all columns at a time."""
    for start in range(0, columns[0].values.size, _ROWS_AT_A_TIME):
        part = slice(start, start + _ROWS_AT_A_TIME)
        yield [replace(column, values=column.values[part]) for column in columns]


def format_part_plainly(columns: Sequence[Column], after: str) -> bytes:
    cells = (
        [column.before + _pad(_cell(column, value), column.width) for value in column.values.tolist()]
        for column in columns
    )
    return "".join("".join(row) + after for row in zip(*cells, strict=True)).encode()


def _cell(column: Column, value: int) -> str:
    if value == column.null:
        return column.nothing
    if column.kind is CellKind.LABEL:
        return column.labels[value]
    return iso_timestamp(value) if column.kind is CellKind.TIMESTAMP else str(value)


def _pad(text: str, width: int) -> str:
    return text.rjust(width) if width > 0 else text.ljust(-width)
