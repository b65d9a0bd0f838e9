"""Rows of numbers as lines of text: the twin of `inspect.listing.format_part_plainly`.

Listings differ only in data: the text before each cell, its kind, its width, its labels. So one compiled
function writes them all.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.cells import ISO_SIZE, LARGEST_NUMBER, SPACE, write_iso, write_number
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import Bytes, copy_bytes

NUMBER, LABEL, TIMESTAMP = 0, 1, 2


class Texts(NamedTuple):
    """Short texts in one buffer; text i is from `starts[i]` to `starts[i + 1]`."""

    data: Bytes
    starts: npt.NDArray[np.int64]


class Layout(NamedTuple):
    """How rows are written; one element per column, `before` has one more for the end of the line."""

    kinds: npt.NDArray[np.int64]
    widths: npt.NDArray[np.int64]
    nullable: npt.NDArray[np.bool_]
    nulls: npt.NDArray[np.int64]
    before: Texts
    labels: Texts
    first_labels: npt.NDArray[np.int64]
    """Where a column's labels begin in `labels`; the first of them is for null."""


def pack_texts(texts: list[bytes]) -> Texts:
    """`texts` as kernels read them."""
    starts = np.cumsum([0, *(len(text) for text in texts)], dtype=np.int64)
    return Texts(np.frombuffer(b"".join(texts) + b"\0", dtype=np.uint8), starts)


@helper
def _write_text(out: Bytes, at: int, texts: Texts, index: int) -> int:
    start, end = texts.starts[index], texts.starts[index + 1]
    copy_bytes(out, at, texts.data, start, end - start)
    return at + int(end - start)


@helper
def _write_cell(out: Bytes, at: int, layout: Layout, column: int, value: int) -> int:
    if layout.nullable[column] and value == layout.nulls[column]:
        return _write_text(out, at, layout.labels, layout.first_labels[column])
    if layout.kinds[column] == LABEL:
        return _write_text(out, at, layout.labels, layout.first_labels[column] + 1 + value)
    return write_iso(out, at, value) if layout.kinds[column] == TIMESTAMP else write_number(out, at, value)


@helper
def _pad(out: Bytes, start: int, end: int, width: int) -> int:
    """Pads the cell from `start` to `end` with spaces; all its characters are ASCII."""
    missing = abs(width) - (end - start)
    if missing <= 0:
        return end
    if width > 0:
        for place in range(end - 1, start - 1, -1):
            out[place + missing] = out[place]
    first = start if width > 0 else end
    for place in range(first, first + missing):
        out[place] = SPACE
    return end + missing


@kernel
def _write_rows(values: npt.NDArray[np.int64], layout: Layout, out: Bytes) -> int:
    columns, rows = values.shape
    at = 0
    for row in range(rows):
        for column in range(columns):
            at = _write_text(out, at, layout.before, column)
            at = _pad(
                out, at, _write_cell(out, at, layout, column, values[column, row]), layout.widths[column]
            )
        at = _write_text(out, at, layout.before, columns)
    return at


def write_rows(values: npt.NDArray[np.int64], layout: Layout) -> Bytes:
    """The lines of `values`, a row per column of the listing."""
    longest_label = int(np.diff(layout.labels.starts).max(initial=0))
    cell = max(LARGEST_NUMBER, ISO_SIZE, longest_label, int(np.abs(layout.widths).max(initial=0)))
    line = int(layout.before.starts[-1]) + values.shape[0] * cell
    out = np.empty(values.shape[1] * line, dtype=np.uint8)
    return out[: _write_rows(values, layout, out)]
