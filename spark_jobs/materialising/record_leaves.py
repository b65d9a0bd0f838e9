"""Records on the short way to a file: taken apart where they were decoded, without becoming a table first."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.kernels.memory import Bytes, as_bytes, read_only
from spark_jobs.materialising.decoding import Piece
from spark_jobs.materialising.record_table import (
    TIMESTAMP_TYPES,
    Flags,
    RecordTable,
    Timestamps,
    timestamp_types,
)
from spark_jobs.parquet.arrow import shred_lists
from spark_jobs.parquet.shreds import Shred, edges
from spark_jobs.parquet.values import Named, Numbers, byte_values

Leaves = tuple[Shred, ...]
"""All columns of the table `records`."""
_SHORT_RUN = 8
"""Rows; batches that have fewer are not worth being told of as runs."""
LARGE_BYTES = 2**20
"""Of a piece's keys, values and headers: smaller ones are gathered as tables first."""
_TYPE_NAMES = [name.encode() for name in TIMESTAMP_TYPES]
_NOTHING = byte_values(as_bytes(b""), [], [])
_NO_NUMBERS = Numbers(read_only([], np.int64))


def is_large(piece: Piece) -> bool:
    """Whether its records are enough for pages of their own."""
    return sum(piece.found.totals[1:]) >= LARGE_BYTES


def leaves_of(table: RecordTable, piece: Piece) -> Leaves:
    """The records of `piece`, one at least, as `table` would have them; all of them are shown."""
    found, rows = piece.found, piece.found.rows
    counts = piece.batch_records
    batches, runs = piece.rows.take(counts > 0), _Runs(found.count, counts[counts > 0])
    timestamps = Timestamps.of(rows.timestamp)
    return (
        runs.constant(table.partition),
        _numbers(rows.offset),
        _some_numbers(timestamps.micros, timestamps.is_stored),
        runs.named(_TYPE_NAMES, timestamp_types(batches)),
        _no_numbers(found.count)
        if timestamps.is_outside is None
        else _some_numbers(timestamps.given, timestamps.is_outside),
        _bytes(found.arena, rows.key_start, rows.key_size),
        _bytes(found.arena, rows.value_start, rows.value_size),
        *(shred_lists(found.headers) if found.totals.headers else _no_headers(found.count)),
        runs.numbers(batches.headers.producer_id),
        runs.numbers(batches.headers.producer_epoch.astype(np.int32)),
        _numbers(rows.sequence),
        runs.texts(table.transactional_ids(batches)),
        runs.numbers(batches.headers.partition_leader_epoch),
        runs.constant(table.run_day),
    )


@dataclass(frozen=True, slots=True)
class _Runs:
    """What batches say of their records: the same of so many of them, one after the other."""

    rows: int
    lengths: npt.NDArray[np.int64]

    def constant(self, number: int) -> Shred:
        """The same of all."""
        lengths = np.array([self.rows], dtype=np.int64)
        return Shred(rows=self.rows, values=Named([number], np.zeros(1, dtype=np.int32), lengths))

    def numbers(self, numbers: npt.NDArray[Any]) -> Shred:
        """A number for each batch."""
        if self._are_short:
            return _numbers(np.repeat(numbers, self.lengths))
        names, places = np.unique(numbers, return_inverse=True)
        return self.named(names.tolist(), places)

    def named(self, names: list[Any], places: npt.NDArray[Any]) -> Shred:
        """One of `names` for each batch."""
        return Shred(rows=self.rows, values=self._named(names, places, self.lengths))

    def texts(self, texts: "pa.Array[Any]") -> Shred:
        """A text for each batch, or none."""
        if texts.null_count == len(texts):
            return Shred(rows=self.rows, values=_NOTHING, definition=0, has_values=False)
        is_there = np.asarray(texts.is_valid())
        encoded = texts.drop_null().dictionary_encode()
        names, places = encoded.dictionary.cast(pa.binary()).to_pylist(), np.asarray(encoded.indices)
        values = self._named(names, places, self.lengths[is_there])
        if is_there.all():
            return Shred(rows=self.rows, values=values, definition=1)
        definition = np.repeat(is_there.view(np.uint8), self.lengths)
        return Shred(rows=self.rows, values=values, definition=definition, row_values=edges(definition))

    @property
    def _are_short(self) -> bool:
        return self.rows < _SHORT_RUN * self.lengths.size

    def _named(self, names: list[Any], places: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> Named:
        numbered = places.astype(np.int32)
        if self._are_short:
            return Named(names, np.repeat(numbered, lengths))
        return Named(names, numbered, lengths)


def _numbers(numbers: npt.NDArray[Any]) -> Shred:
    return Shred(rows=numbers.size, values=Numbers(read_only(numbers, numbers.dtype)))


def _some_numbers(numbers: npt.NDArray[np.int64], is_there: Flags | None) -> Shred:
    """Numbers that can be null; without `is_there` none is."""
    if is_there is None or is_there.all():
        return replace(_numbers(numbers), definition=1)
    if not is_there.any():
        return _no_numbers(numbers.size)
    values = Numbers(read_only(numbers[is_there], numbers.dtype))
    definition = is_there.view(np.uint8)
    return Shred(rows=numbers.size, values=values, definition=definition, row_values=edges(is_there))


def _no_numbers(rows: int) -> Shred:
    return Shred(rows=rows, values=_NO_NUMBERS, definition=0, has_values=False)


def _bytes(data: Bytes, starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int32]) -> Shred:
    """Bytes where they stand; a size of -1 is null."""
    is_there, rows = sizes >= 0, sizes.size
    if is_there.all():
        return Shred(rows=rows, values=byte_values(data, starts, sizes), definition=1)
    values = byte_values(data, starts[is_there], sizes[is_there])
    return Shred(rows=rows, values=values, definition=is_there.view(np.uint8), row_values=edges(is_there))


def _no_headers(rows: int) -> Iterable[Shred]:
    """An empty list for each record: neither a key nor a value."""
    empty = Shred(rows=rows, values=_NOTHING, definition=0, repetition=0, has_values=False)
    return empty, empty
