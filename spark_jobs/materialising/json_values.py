"""Declared fields of JSON values as columns; a value that does not match its schema is reported with the
reason.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_jobs.config.values import ValueType
from spark_jobs.storage.topic_contract import VALUE_TYPES

_LONG = range(-(2**63), 2**63)

_FITS: dict[ValueType, Callable[[Any], bool]] = {
    ValueType.STRING: lambda found: isinstance(found, str),
    ValueType.LONG: lambda found: isinstance(found, int) and not isinstance(found, bool) and found in _LONG,
    ValueType.DOUBLE: lambda found: isinstance(found, int | float) and not isinstance(found, bool),
    ValueType.BOOLEAN: lambda found: isinstance(found, bool),
}


class Unfit(ValueError):
    """Why a value is not what its topic's schema says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedValues:
    """A column per declared field, null where a value does not fit; `unfit` says why, by row."""

    columns: "dict[str, pa.Array[Any]]"
    unfit: dict[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSchema:
    """The declared fields; those `required` must be there, a null value has none of them and fits."""

    fields: Mapping[str, ValueType]
    required: frozenset[str] = frozenset()

    def fit(self, values: Sequence[bytes | None]) -> FittedValues:
        """The fields of all values."""
        cells: dict[str, list[Any]] = {name: [None] * len(values) for name in self.fields}
        unfit: dict[int, str] = {}
        for row, value in enumerate(values):
            try:
                for name, cell in self._cells(value).items():
                    cells[name][row] = cell
            except Unfit as problem:
                unfit[row] = str(problem)
        columns = {name: pa.array(cells[name], VALUE_TYPES[kind]) for name, kind in self.fields.items()}
        return FittedValues(columns=columns, unfit=unfit)

    def _cells(self, value: bytes | None) -> dict[str, Any]:
        if value is None:
            return {}
        found = _parse(value)
        return {name: self._cell(name, kind, found.get(name)) for name, kind in self.fields.items()}

    def _cell(self, name: str, kind: ValueType, found: Any) -> Any:
        if found is None:
            if name in self.required:
                raise Unfit(f"field {name}: expected {kind}, found nothing")
            return None
        if not _FITS[kind](found):
            raise Unfit(f"field {name}: expected {kind}, found {json.dumps(found)[:SHOWN]}")
        return _as_double(name, found) if kind is ValueType.DOUBLE else found


SHOWN = 60
"""Characters of a found value that a reason repeats."""


def _as_double(name: str, found: float) -> float:
    try:
        return float(found)
    except OverflowError:
        raise Unfit(f"field {name}: expected double, found a number beyond its range") from None


def _parse(value: bytes) -> dict[str, Any]:
    try:
        found = json.loads(value.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise Unfit("expected a JSON object, found bytes that are not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise Unfit(f"expected a JSON object, found no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Unfit(f"expected a JSON object, found {json.dumps(found)[:SHOWN]}")
    _check_text(found)
    return found


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _check_text(found: dict[str, Any]) -> None:
    """JSON can spell half of a character; no table can hold it."""
    for name, cell in found.items():
        if isinstance(cell, str) and any("\ud800" <= letter <= "\udfff" for letter in cell):
            raise Unfit(f"field {name}: expected text, found half of a surrogate pair")
