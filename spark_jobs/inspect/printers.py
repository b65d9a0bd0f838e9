"""Reports as values, and two printers: tables for people, one JSON object per line for machines."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Protocol, TypeAlias

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from spark_jobs.inspect.record_lines import ESCAPED_WIDTH, iso_timestamp, preview_text
from spark_jobs.inspect.segment_files import Advance
from spark_jobs.reading.remarks import Level, Remark, plural

Cell: TypeAlias = int | str | bool | None
"""A number, text, flag or nothing. A column whose name ends in `timestamp` counts milliseconds since 1970."""
_ROWS_SHOWN = 200
"""Longer tables are cut for people; JSON has all rows."""
_CELL_WIDTH = 120
_WIDTH_OF_A_FILE = 180
"""Width if there is no terminal."""
_COUNTS = ("bytes", "batches", "records", "markers", "entries", "producers", "partitions", "size")
_WORTH_A_BAR = 64 * 1024 * 1024
"""Bytes from which a progress bar is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of one kind; `name` is what one row is."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One path: its kind, facts, tables and remarks."""

    path: str
    kind: str
    facts: tuple[tuple[str, Cell], ...] = ()
    tables: tuple[Table, ...] = ()
    remarks: tuple[Remark, ...] = ()


_STYLES = {Level.NOTE: "cyan", Level.WARNING: "yellow", Level.ERROR: "bold red"}


class Printer(Protocol):
    """Prints reports and listings."""

    def report(self, report: Report) -> None:
        """Everything about one path."""

    def heading(self, text: str) -> None:
        """A line above a listing."""

    def lines(self, piece: bytes | memoryview) -> None:
        """Some lines of a listing."""


class JsonPrinter:
    """One object per line; each has a `kind` and the `path` that it is about."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def report(self, report: Report) -> None:
        self._object(report.kind, report.path, dict(report.facts))
        for table in report.tables:
            for row in table.rows:
                self._object(table.name, report.path, dict(zip(table.columns, row, strict=True)))
        for remark in report.remarks:
            self._object("remark", report.path, {"level": remark.level, "text": remark.text})

    def heading(self, text: str) -> None:
        """Machines read names from every object."""

    def lines(self, piece: bytes | memoryview) -> None:
        self._out.write(piece)

    def _object(self, kind: str, path: str, members: dict[str, Cell]) -> None:
        self._out.write(json.dumps({"kind": kind, "path": path, **members}).encode() + b"\n")


class TextPrinter:
    """Tables, as wide as the terminal; wider in a file."""

    def __init__(self, out: BinaryIO, *, is_terminal: bool) -> None:
        self._out = out
        self._console = Console(
            width=None if is_terminal else _WIDTH_OF_A_FILE, force_terminal=is_terminal, highlight=False
        )

    def report(self, report: Report) -> None:
        self._print(_title(report), _facts(report))
        for table in report.tables:
            self._print(Text(_title_of(table), style="bold"), _table(table))
        for remark in report.remarks:
            self._print(_remark(remark))
        self._print(Text())

    def heading(self, text: str) -> None:
        self._print(Text(text, style="bold", no_wrap=True, overflow="ignore"))

    def lines(self, piece: bytes | memoryview) -> None:
        self._out.write(piece)

    def _print(self, *shown: RenderableType) -> None:
        with self._console.capture() as captured:
            for renderable in shown:
                self._console.print(renderable, crop=False, soft_wrap=isinstance(renderable, Text))
        self._out.write(captured.get().encode())


def _title(report: Report) -> Text:
    return Text.assemble(
        (report.kind.replace("_", " "), "bold green"), "  ", (printable(report.path), "bold")
    )


def _facts(report: Report) -> Text:
    facts = [f"{_label(name)} {_cell(name, value)}" for name, value in report.facts if value is not None]
    return Text("   ".join(facts))


def _title_of(table: Table) -> str:
    return "\n" + plural(len(table.rows), _label(table.name))


def _table(table: Table) -> RichTable:
    shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left", show_edge=False)
    for index, name in enumerate(table.columns):
        numeric = all(isinstance(row[index], int | None) for row in table.rows) and not name.endswith(
            "timestamp"
        )
        shown.add_column(_label(name), justify="right" if numeric else "left", overflow="fold")
    for row in table.rows[:_ROWS_SHOWN]:
        shown.add_row(*(Text(_cell(name, value)) for name, value in zip(table.columns, row, strict=True)))
    if len(table.rows) > _ROWS_SHOWN:
        shown.caption = f"{len(table.rows) - _ROWS_SHOWN:,} more; --json shows all"
    return shown


def _remark(remark: Remark) -> Text:
    return Text.assemble((f"{remark.level}: ", _STYLES[remark.level]), printable(remark.text))


def _label(name: str) -> str:
    return name.replace("_", " ")


def _cell(name: str, value: Cell) -> str:
    if value is None or (value == -1 and name.endswith("timestamp")):
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return (
            iso_timestamp(value)
            if name.endswith("timestamp")
            else f"{value:,}"
            if name in _COUNTS
            else str(value)
        )
    return preview_text(str(value), _CELL_WIDTH)


def printable(text: str) -> str:
    """The whole text without terminal control sequences."""
    return preview_text(text, len(text) * ESCAPED_WIDTH)


@contextmanager
def progress(what: str, total_bytes: int, *, wanted: bool | None) -> Iterator[Advance]:
    """A progress bar on stderr over `total_bytes`; by default (`wanted` is None) only on a terminal."""
    if not (_is_worth_it(total_bytes) if wanted is None else wanted):
        yield lambda _: None
        return
    from rich.progress import (  # noqa: PLC0415 — small files are shown without
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(what), total=total_bytes)
        yield lambda done: bar.advance(task, done)


def _is_worth_it(total_bytes: int) -> bool:
    return total_bytes >= _WORTH_A_BAR and sys.stderr.isatty()
