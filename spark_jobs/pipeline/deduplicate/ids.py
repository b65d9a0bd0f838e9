"""Business ids of records, in a canonical byte form: two ids are the same if their bytes are.

The key or a header is the id as it is. Of JSON values, each declared field is a part of the id: a letter for
its type and its canonical text, preceded by the length of both.

- A string is its characters as UTF-8, as JSON means them: an escape `u0041` is the letter `A`.
- A number is its exact decimal value: `1`, `1.0` and `1e0` are the same, and no digit is rounded away.
- `true` and `false` are their names. A string is never the same as a number: `"1"` is not `1`.

A record has no id where the key, the header, its value or one of the fields is null or missing. An id is
unusable where the value is not a JSON object, or a field is an object, a list or half of a surrogate pair.
"""

import json
from collections.abc import Iterable
from decimal import Decimal
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.dedup import HEADER, KEY

_LENGTH = Struct(">I")


class IdState(IntEnum):
    """Whether a record has an id."""

    PRESENT = 0
    NULL = 1
    UNUSABLE = 2


class FoundIds(NamedTuple):
    """The ids of some records: bytes where the state is `PRESENT`, else null."""

    ids: "pa.Array[Any]"
    states: npt.NDArray[np.uint8]


class _Unusable(ValueError):
    """A value without a usable id."""


def columns_of(source: str | tuple[str, ...]) -> list[str]:
    """The columns of a topic's table that hold the id."""
    if isinstance(source, tuple):
        return ["value"]
    return ["key"] if source == KEY else ["headers"]


def find_ids(source: str | tuple[str, ...], rows: pa.RecordBatch) -> FoundIds:
    """The ids of rows of a topic's table."""
    if isinstance(source, tuple):
        return _ids_of_values(source, rows.column("value").to_pylist())
    found = rows.column("key") if source == KEY else last_headers(rows, source.removeprefix(HEADER))
    ids: pa.Array[Any] = found.cast(pa.large_binary())
    return FoundIds(ids, np.asarray(pc.is_null(ids).cast(pa.uint8())))


def last_headers(rows: pa.RecordBatch, name: str) -> "pa.Array[Any]":
    """The value of each record's last header of that name, as `Headers.lastHeader`; null without one."""
    headers: Any = rows.column("headers")
    flat = headers.flatten()
    parents = np.asarray(pc.list_parent_indices(headers))
    chosen = np.flatnonzero(np.asarray(pc.equal(flat.field("key"), pa.scalar(name, pa.string()))))
    place = np.full(rows.num_rows, -1, dtype=np.int64)
    place[parents[chosen]] = chosen  # the last assignment to a row wins
    found: pa.Array[Any] = flat.field("value").take(pa.array(place, mask=place < 0))
    return found


Paths = tuple[tuple[str, ...], ...]
"""Fields that are the id, each as the names that lead to it."""


def _ids_of_values(fields: tuple[str, ...], values: Iterable[bytes | None]) -> FoundIds:
    paths = tuple(tuple(name.split(".")) for name in fields)
    found: list[bytes | None] = []
    unusable: list[int] = []
    for value in values:
        try:
            found.append(None if value is None else canonical_id(paths, value))
        except _Unusable:
            unusable.append(len(found))
            found.append(None)
    ids: pa.Array[Any] = pa.array(found, pa.large_binary())
    states = np.array(pc.is_null(ids).cast(pa.uint8()))
    states[unusable] = IdState.UNUSABLE
    return FoundIds(ids, states)


def canonical_id(paths: Paths, value: bytes) -> bytes | None:
    """The id in a JSON value; None if a part of it is null or missing.

    orjson reads most values in a fraction of the time. It rounds numbers and refuses what Python's parser
    accepts, such as half of a surrogate pair: these values are parsed exactly.
    """
    try:
        return quick_id(paths, value)
    except _NeedsExact:
        return exact_id(paths, value)


def exact_id(paths: Paths, value: bytes) -> bytes | None:
    """The same by Python's parser, which every number reaches as it was written."""
    parsed = _parse(value)
    return _joined([_part(parsed, path) for path in paths])


def _joined(parts: list[bytes | None]) -> bytes | None:
    found = [_LENGTH.pack(len(part)) + part for part in parts if part is not None]
    return b"".join(found) if len(found) == len(parts) else None


# By orjson.

MOST_BRACKETS = 512
"""Values with more can be nested more deeply than Python's parser allows."""


class _NeedsExact(ValueError):
    """A value that orjson does not read exactly."""


def quick_id(paths: Paths, value: bytes) -> bytes | None:
    """The id of a value whose fields are strings, integers of 64 bits, booleans or null."""
    if len(value) > 2 * MOST_BRACKETS and value.count(b"[") + value.count(b"{") > MOST_BRACKETS:
        raise _NeedsExact
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError:
        raise _NeedsExact from None
    return _joined([_quick_part(parsed, path) for path in paths])


def _quick_part(found: Any, path: tuple[str, ...]) -> bytes | None:
    for name in path:
        if type(found) is not dict:
            raise _NeedsExact
        found = found.get(name)
    if type(found) is str:
        return b"s" + found.encode()
    if found is None:
        return None
    if type(found) is int:
        return b"n" + integer_text(found).encode()
    raise _NeedsExact


def integer_text(number: int) -> str:
    """What `decimal_text` gives for an integer."""
    text = str(number)
    kept = text.rstrip("0")
    return f"{kept}e{len(text) - len(kept)}" if kept else "0e0"


# By Python's parser.


class _Float(str):
    """A number with a fraction or an exponent as it was written: most are no part of an id."""

    __slots__ = ()


def _parse(value: bytes) -> dict[str, Any]:
    try:
        found = json.loads(value.decode("utf-8"), parse_float=_Float, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise _Unusable from None
    if not isinstance(found, dict):
        raise _Unusable
    return found


def _refuse(name: str) -> float:
    raise ValueError(name)


def _part(found: Any, path: tuple[str, ...]) -> bytes | None:
    for name in path:
        if found is None:
            return None
        if not isinstance(found, dict):
            raise _Unusable
        found = found.get(name)
    return None if found is None else _scalar(found)


def _scalar(found: Any) -> bytes:
    if isinstance(found, bool):
        return b"b" + str(found).lower().encode()
    if isinstance(found, int | _Float):
        return b"n" + _number_text(found).encode()
    if isinstance(found, str):
        try:
            return b"s" + found.encode()
        except UnicodeEncodeError:
            raise _Unusable from None
    raise _Unusable


def _number_text(found: int | _Float) -> str:
    try:
        return decimal_text(Decimal(found))
    except ArithmeticError:  # an exponent of more than 18 digits
        raise _Unusable from None


def decimal_text(number: Decimal) -> str:
    """The exact value as digits without zeros at the end, and a power of ten: `12e2` for 1200."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)  # JSON has no infinity
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "0e0"
    kept = text.rstrip("0")
    return f"{'-' if sign else ''}{kept}e{exponent + len(text) - len(kept)}"
