"""Pages: levels and values of some rows, compressed, with a checksum in their header."""

import zlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import zstandard

from spark_jobs.kernels.encodings import most_run_bytes, put_run, put_runs
from spark_jobs.kernels.memory import Bytes
from spark_jobs.parquet.encoders import Bounds, Encoder, Encoding
from spark_jobs.parquet.leaves import Leaf
from spark_jobs.parquet.shreds import Levels, Shred
from spark_jobs.parquet.thrift import Value, i32, struct

Fields = dict[int, Value]

DATA_PAGE, DICTIONARY_PAGE = 0, 2
_DATA_PAGE, _RLE = i32(DATA_PAGE), i32(Encoding.RLE)
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
    """A page and its bytes, which are not kept once they are written."""

    page: Page
    header: bytes
    body: bytes


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
            end = _put_levels(target, end, each, slots, width)
        if values[0] < values[1]:
            encoding, (end, bounds) = encoder.encoding, encoder.put(target, end, *values)
        content = {1: i32(slots), 2: i32(encoding), 3: _RLE, 4: _RLE}
        header, body = self._pressed(target[:end].data, {1: _DATA_PAGE}, {5: struct(content)})
        page = Page(
            length=len(header) + len(body),
            size=len(header) + end,
            encoding=encoding,
            rows=stop - first,
            slots=slots,
            values=values[1] - values[0],
            bounds=bounds,
        )
        return Pressed(page, header, body)

    def dictionary_page(self, content: bytes, entries: int) -> Pressed:
        """All entries of a dictionary."""
        rest = {7: struct({1: i32(entries), 2: i32(Encoding.PLAIN)})}
        header, body = self._pressed(memoryview(content), {1: i32(DICTIONARY_PAGE)}, rest)
        size = len(header) + len(content)
        return Pressed(Page(length=len(header) + len(body), size=size, encoding=Encoding.PLAIN), header, body)

    def _room(self, size: int) -> Bytes:
        if size > self._memory.size:
            self._memory = np.empty(size, dtype=np.uint8)
        return self._memory

    def _pressed(self, content: memoryview, kind: Fields, rest: Fields) -> tuple[bytes, bytes]:
        """Header and body."""
        body = self._compressor.compress(content)
        checksum = zlib.crc32(body)
        sizes = {2: i32(len(content)), 3: i32(len(body)), 4: i32(checksum - (checksum >> 31 << 32))}
        return struct({**kind, **sizes, **rest}).data, body


def _levels(leaf: Leaf, rows: Shred, first: int, stop: int) -> list[tuple[Levels, int]]:
    """Those of repetition and of definition, as far as the leaf has them, and how many bits each takes."""
    chosen = slice(rows.slot(first), rows.slot(stop))
    both = ((rows.repetition, leaf.max_repetition), (rows.definition, leaf.max_definition))
    return [
        (levels if isinstance(levels, int) else levels[chosen], most.bit_length())
        for levels, most in both
        if levels is not None
    ]


def _put_levels(target: Bytes, at: int, levels: Levels, slots: int, width: int) -> int:
    start = at + _LEVELS_SIZE
    if isinstance(levels, int):
        end = put_run(target, start, levels, slots, width)
    else:
        end = put_runs(target, start, levels, 0, slots, width)
    target[at:start] = np.frombuffer((end - start).to_bytes(_LEVELS_SIZE, "little"), dtype=np.uint8)
    return end
