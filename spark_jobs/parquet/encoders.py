"""How values are written: each way knows how much room it needs, and finds bounds on its way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.encodings import (
    BLOCK,
    SIZE_BYTES,
    SLACK,
    most_delta_bytes,
    most_given_run_bytes,
    most_run_bytes,
    put_delta,
    put_given_runs,
    put_plain,
    put_runs,
    total_of,
)
from spark_jobs.kernels.memory import Bytes
from spark_jobs.parquet.values import ByteValues, Counts, Places

LONGEST_BOUND = 4096
"""Bytes; a longer smallest or greatest value would make footers larger than it helps."""


class Encoding(IntEnum):
    """By the numbers that the format gives them."""

    PLAIN = 0
    RLE = 3
    DELTA_BINARY_PACKED = 5
    RLE_DICTIONARY = 8


class Bounds(NamedTuple):
    """The smallest and the greatest of some values."""

    low: Any
    high: Any


class Put(NamedTuple):
    """Values that were put into memory: where they end, and their bounds, if these are known."""

    end: int
    bounds: Bounds | None


class Encoder(Protocol):
    """Values of one leaf, ready to be put."""

    @property
    def encoding(self) -> Encoding: ...

    def most_bytes(self, first: int, stop: int) -> int:
        """Room that the values from `first` to before `stop` need."""

    def put(self, target: Bytes, at: int, first: int, stop: int) -> Put:
        """Put them into `target` from `at` on; there is one at least."""


def _short(bounds: Bounds) -> Bounds | None:
    is_long = isinstance(bounds.low, bytes) and max(map(len, bounds)) > LONGEST_BOUND
    return None if is_long else bounds


@dataclass(frozen=True, slots=True)
class PlainBytes:
    """Bytes and text as they are."""

    encoding: ClassVar[Encoding] = Encoding.PLAIN
    values: ByteValues

    def most_bytes(self, first: int, stop: int) -> int:
        return total_of(self.values.sizes, first, stop) + SIZE_BYTES * (stop - first) + SLACK

    def put(self, target: Bytes, at: int, first: int, stop: int) -> Put:
        data, starts, sizes = self.values.data, self.values.starts, self.values.sizes
        end, low, high = put_plain(target, at, data, starts, sizes, first, stop)
        return Put(end, _short(Bounds(self._value(low), self._value(high))))

    def _value(self, row: int) -> bytes:
        start = int(self.values.starts[row])
        return self.values.data[start : start + int(self.values.sizes[row])].tobytes()


@dataclass(frozen=True, slots=True)
class Packed:
    """Whole numbers by their differences."""

    encoding: ClassVar[Encoding] = Encoding.DELTA_BINARY_PACKED
    numbers: npt.NDArray[Any]

    def most_bytes(self, first: int, stop: int) -> int:
        return most_delta_bytes(stop - first)

    def put(self, target: Bytes, at: int, first: int, stop: int) -> Put:
        room, bits = np.empty(BLOCK, dtype=np.int64), 8 * self.numbers.itemsize
        end, low, high = put_delta(target, at, self.numbers, first, stop, bits, room)
        return Put(end, Bounds(low, high))


@dataclass(frozen=True, slots=True)
class Doubles:
    """Floating point numbers as they are."""

    encoding: ClassVar[Encoding] = Encoding.PLAIN
    numbers: npt.NDArray[np.float64]

    def most_bytes(self, first: int, stop: int) -> int:
        return self.numbers.itemsize * (stop - first)

    def put(self, target: Bytes, at: int, first: int, stop: int) -> Put:
        chosen = self.numbers[first:stop]
        target[at : at + chosen.nbytes] = chosen.view(np.uint8)
        low, high = float(chosen.min()), float(chosen.max())
        # Not a number has no place among others, and of the two zeros either may be among them.
        bounds = None if math.isnan(low) else Bounds(low or -0.0, high or 0.0)
        return Put(at + chosen.nbytes, bounds)


@dataclass(frozen=True, slots=True)
class Booleans:
    """A bit each."""

    encoding: ClassVar[Encoding] = Encoding.PLAIN
    values: npt.NDArray[np.bool_]

    def most_bytes(self, first: int, stop: int) -> int:
        return (stop - first + 7) // 8

    def put(self, target: Bytes, at: int, first: int, stop: int) -> Put:
        chosen = self.values[first:stop]
        packed = np.packbits(chosen, bitorder="little")
        target[at : at + packed.size] = packed
        return Put(at + packed.size, Bounds(bool(chosen.all()), bool(chosen.any())))


@dataclass(frozen=True, slots=True)
class Indices:
    """Places in a dictionary of `entries`, of which these rows have those at `used`; they stay together."""

    encoding: ClassVar[Encoding] = Encoding.RLE_DICTIONARY
    entries: Sequence[Any]
    used: Sequence[int]
    places: Places
    lengths: Counts | None

    @property
    def width(self) -> int:
        """Bits of a place."""
        return max((len(self.entries) - 1).bit_length(), 1)

    def most_bytes(self, first: int, stop: int) -> int:
        if self.lengths is None:
            return 1 + most_run_bytes(stop - first, self.width)
        return 1 + most_given_run_bytes(self.places.size)

    def put(self, target: Bytes, at: int, first: int, stop: int) -> Put:
        target[at] = self.width
        if self.lengths is None:
            end = put_runs(target, at + 1, self.places, first, stop, self.width)
        else:
            end = put_given_runs(target, at + 1, self.places, self.lengths, self.width)
        names = [self.entries[place] for place in self.used]
        return Put(end, _short(Bounds(min(names), max(names))))


def encode_numbers(numbers: npt.NDArray[Any]) -> Encoder:
    """The way for numbers of this type."""
    if numbers.dtype == np.bool_:
        return Booleans(numbers)
    return Doubles(numbers) if numbers.dtype == np.float64 else Packed(numbers)
