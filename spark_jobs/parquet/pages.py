"""Pages: levels and values of some rows, compressed, with a checksum in their header."""

import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import zstandard

from spark_jobs.kernels.encodings import most_run_bytes, put_runs
from spark_jobs.kernels.memory import Bytes
from spark_jobs.parquet.encoders import Bounds, Encoder, Encoding
from spark_jobs.parquet.leaves import Leaf
from spark_jobs.parquet.shreds import Levels, Shred
from spark_jobs.parquet.thrift import Value, i32, struct

Fields = dict[int, Value]

DATA_PAGE, DICTIONARY_PAGE = 0, 2
_FIRST_ROOM = 2**20 + 2**18
_LEVELS_SIZE = 4
"""Bytes before levels that say how many there are."""
_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(
    1, window_log=18, hash_log=14, min_match=7, strategy=zstandard.STRATEGY_FAST, write_checksum=False
)
"""Level 1 with a table and a window that stay in a core's own cache: as small, in nine tenths of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is known of a page: it takes `length` bytes of the file, and `size` were it not compressed."""

    length: int
    size: int
    encoding: Encoding
    rows: int = 0
    slots: int = 0
    values: int = 0
    bounds: Bounds | None = None


class Pressed(NamedTuple):
    """A page and its bytes, header and all, which are not kept once they are written."""

    page: Page
    data: bytes


class Press:
    """Makes pages, in memory that it keeps for the next one; a file has one."""

    def __init__(self) -> None:
        self._memory = np.empty(_FIRST_ROOM, dtype=np.uint8)
        self._compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)

    def data_page(self, leaf: Leaf, rows: Shred, encoder: Encoder, first: int, stop: int) -> Pressed:
        """The rows from `first` to before `stop`."""
        slots, values = rows.slot(stop) - rows.slot(first), (rows.value(first), rows.value(stop))
        levels = _levels(leaf, rows, first, stop)
        room = sum(_LEVELS_SIZE + most_run_bytes(slots, width) for _, width in levels)
        target, end = self._room(room + encoder.most_bytes(*values)), 0
        encoding, bounds = Encoding.PLAIN, None  # of nothing but nulls
        for each, width in levels:
            end = _put_levels(target, end, each, width)
        if values[0] < values[1]:
            encoding, (end, bounds) = encoder.encoding, encoder.put(target, end, *values)
        header = struct({1: i32(slots), 2: i32(encoding), 3: i32(Encoding.RLE), 4: i32(Encoding.RLE)})
        data, size = self._pressed(target[:end].data, {1: i32(DATA_PAGE)}, {5: header})
        page = Page(
            length=len(data),
            size=size,
            encoding=encoding,
            rows=stop - first,
            slots=slots,
            values=values[1] - values[0],
            bounds=bounds,
        )
        return Pressed(page, data)

    def dictionary_page(self, content: bytes, entries: int) -> Pressed:
        """All entries of a dictionary."""
        header = struct({1: i32(entries), 2: i32(Encoding.PLAIN)})
        data, size = self._pressed(memoryview(content), {1: i32(DICTIONARY_PAGE)}, {7: header})
        return Pressed(Page(length=len(data), size=size, encoding=Encoding.PLAIN), data)

    def _room(self, size: int) -> Bytes:
        if size > self._memory.size:
            self._memory = np.empty(size, dtype=np.uint8)
        return self._memory

    def _pressed(self, content: memoryview, kind: Fields, rest: Fields) -> tuple[bytes, int]:
        """The page, and its size without compression."""
        body = self._compressor.compress(content)
        checksum = zlib.crc32(body)
        sizes = {2: i32(len(content)), 3: i32(len(body)), 4: i32(checksum - (checksum >> 31 << 32))}
        header = struct({**kind, **sizes, **rest}).data
        return header + body, len(header) + len(content)


def _levels(leaf: Leaf, rows: Shred, first: int, stop: int) -> list[tuple[Levels, int]]:
    """Those of repetition and of definition, as far as the leaf has them, and how many bits each takes."""
    chosen = slice(rows.slot(first), rows.slot(stop))
    both = ((rows.repetition, leaf.max_repetition), (rows.definition, leaf.max_definition))
    return [(levels[chosen], most.bit_length()) for levels, most in both if levels is not None]


def _put_levels(target: Bytes, at: int, levels: Levels, width: int) -> int:
    start = at + _LEVELS_SIZE
    end = put_runs(target, start, levels, 0, levels.size, width)
    target[at:start] = np.array([end - start], dtype="<u4").view(np.uint8)
    return end
