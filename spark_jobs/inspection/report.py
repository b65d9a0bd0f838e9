"""The report of `inspect` about one path, as values; printers format it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Cell: TypeAlias = int | str | bool | None
"""A number, text, flag or nothing. A column whose name ends in `timestamp` counts milliseconds since 1970."""


class Level(StrEnum):
    """How much a remark should worry its reader."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One sentence on something that the reader would want to know."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of one kind; `name` is what one row is."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One path: what it is, its facts, its tables and what is remarkable about it."""

    path: str
    kind: str
    facts: tuple[tuple[str, Cell], ...] = ()
    tables: tuple[Table, ...] = ()
    remarks: tuple[Remark, ...] = ()


def note(text: str) -> Remark:
    return Remark(level=Level.NOTE, text=text)


def warning(text: str) -> Remark:
    return Remark(level=Level.WARNING, text=text)


def error(text: str) -> Remark:
    return Remark(level=Level.ERROR, text=text)


def plural(count: int, noun: str) -> str:
    """`3 batches`, `1 batch`: a count that reads as a sentence does."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('ch', 'x', 's')) else 's'}"
