"""Decoded records as rows of a topic's table, with columns of their batch, transaction and run."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from spark_jobs.config.settings import ValueType
from spark_jobs.lake.iceberg.topic_tables import VALUE_TYPES
from spark_jobs.pipeline.materialise.batch_rows import BatchRows
from spark_jobs.pipeline.materialise.decoding import DecodedPiece
from spark_jobs.pipeline.materialise.outcomes import View, names_of
from spark_jobs.reading.batch_labels import TIMESTAMP_TYPES, timestamp_types
from spark_jobs.reading.record_columns import Timestamps
from spark_jobs.tables.materialise import RECORDS, as_written

_TYPE_NAMES = pa.array(TIMESTAMP_TYPES, pa.string())
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTable:
    """Makes rows of the table `records` for one partition; what `view` does not show is left out."""

    partition: int
    view: View
    run_date: date

    def rows_of(self, piece: DecodedPiece) -> pa.Table:
        """The records of `piece` that are shown as rows of the table, as they are written."""
        records, headers, counts = piece.found.records, piece.rows.headers, piece.batch_records
        days = np.full(records.num_rows, (self.run_date - _EPOCH).days, dtype=np.int32)
        columns = {
            "partition": np.full(records.num_rows, self.partition, dtype=np.int32),
            "timestamp_type": pa.DictionaryArray.from_arrays(
                np.repeat(timestamp_types(headers).astype(np.int32), counts), _TYPE_NAMES
            ),
            "producer_id": np.repeat(headers.producer_id, counts),
            "producer_epoch": np.repeat(headers.producer_epoch.astype(np.int32), counts),
            "transactional_id": self._transactional_ids(piece.rows).take(piece.found.rows.batch),
            "partition_leader_epoch": np.repeat(headers.partition_leader_epoch, counts),
            "run_date": pa.array(days, pa.int32()).cast(pa.date32()),
            **{name: records.column(name) for name in ("offset", "sequence", "key", "value", "headers")},
            **Timestamps.of(piece.found.rows.timestamp).columns(),
        }
        table = pa.table([columns[name] for name in _WRITTEN.names], schema=_WRITTEN)
        first_offsets = self.view.first_offsets(piece.rows)
        if (headers.base_offset >= first_offsets).all():
            return table
        # A log may begin inside a batch.
        return table.filter(pa.array(piece.found.rows.offset >= np.repeat(first_offsets, counts)))

    def _transactional_ids(self, rows: BatchRows) -> "pa.Array[Any]":
        """For each batch the name of its transaction's producer, null where it is not known."""
        outcomes = self.view.outcomes
        return names_of(outcomes.transactional_id, outcomes.index_of(rows.txn_first_offset))


_WRITTEN = as_written(RECORDS.schema)


# Declared fields of JSON values as columns.

_LONG = range(-(2**63), 2**63)

_FITS: dict[ValueType, Callable[[Any], bool]] = {
    ValueType.STRING: lambda found: isinstance(found, str),
    ValueType.LONG: lambda found: isinstance(found, int) and not isinstance(found, bool) and found in _LONG,
    ValueType.DOUBLE: lambda found: isinstance(found, int | float) and not isinstance(found, bool),
    ValueType.BOOLEAN: lambda found: isinstance(found, bool),
}


class UnfitValue(ValueError):
    """Why a value does not fit its topic's schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedValues:
    """A column per declared field, null where a value does not fit; `unfit` has the reason, by row."""

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
            except UnfitValue as problem:
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
                raise UnfitValue(f"field {name}: expected {kind}, found nothing")
            return None
        if not _FITS[kind](found):
            raise UnfitValue(f"field {name}: expected {kind}, found {json.dumps(found)[:SHOWN]}")
        return _as_double(name, found) if kind is ValueType.DOUBLE else found


SHOWN = 60
"""Characters of a found value that a reason repeats."""


def _as_double(name: str, found: float) -> float:
    try:
        return float(found)
    except OverflowError:
        raise UnfitValue(f"field {name}: expected double, found a number beyond its range") from None


def _parse(value: bytes) -> dict[str, Any]:
    try:
        found = json.loads(value.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise UnfitValue("expected a JSON object, found bytes that are not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise UnfitValue(f"expected a JSON object, found no JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnfitValue(f"expected a JSON object, found {json.dumps(found)[:SHOWN]}")
    _check_text(found)
    return found


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _check_text(found: dict[str, Any]) -> None:
    """JSON can spell half of a character; no table can hold it."""
    for name, cell in found.items():
        if isinstance(cell, str) and any("\ud800" <= letter <= "\udfff" for letter in cell):
            raise UnfitValue(f"field {name}: expected text, found half of a surrogate pair")
