"""Headers of staged objects: `stage` writes them where it reads an object whole, and `index` uses them.

`staging/2024-05-01/headers/ab12…-5f3a…` has a row for each batch of the object with this SHA-256, from its
first byte up to the first one that belongs to no intact batch of format 2. `index` reads the object only
behind the last row. The files are a cache: without one, `index` reads the object and has the same rows.

A file consists of blocks of rows, column by column, compressed; a directory of the blocks, each with its
SHA-256; the number of blocks, and the SHA-256 of the directory and the object that it belongs to. So a file
that is truncated, damaged or another object's is recognised before it is decoded. Arrow's Parquet reader does
not recognise a damaged footer: it can crash.
"""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from struct import Struct
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa

from spark_jobs.config.canonical import digest_of
from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, LENGTH_OFFSET, LOG_OVERHEAD, MAGIC_V2
from spark_jobs.kernels.columns import HeaderColumns, allocate, concatenate
from spark_jobs.kernels.scan import StopReason, scan_chunk
from spark_jobs.lake.errors import ObjectMissing
from spark_jobs.lake.file_store import translated
from spark_jobs.lake.layout import STAGING, staging_key
from spark_jobs.lake.object_store import ObjectStat, ObjectStore
from spark_jobs.lake.parquet_file import ScratchFile

VERSION = 1
HEADERS = "headers"
ROWS_PER_BLOCK = 1 << 14
"""Rows held before they are written: 1.3 MB."""
ROWS_AT_A_TIME = 1 << 12
LARGEST_HELD = 8 * 2**20
"""Headers end before a batch of more bytes, which would have to be held until it is whole."""
SAMPLE, SMALLEST_BATCH = 64, 1024
"""If batches are smaller on average, after so many of them, a file would cost more than it saves."""
TAIL_BYTES = 1 << 16
"""Read at a file's end: the directory of 1,000 blocks."""
DELETE_THREADS = 16

_CODEC = pa.Codec("zstd", 1)
_BLOCK = Struct("<qqqq32s")
_TRAILER = Struct("<q32s")
_TYPES = {name: column.dtype for name, column in allocate(0)._asdict().items() if name != "crc_ok"}
_LAYOUT = digest_of([VERSION, [[name, kind.str] for name, kind in _TYPES.items()]])[:8]
_ROW_BYTES = sum(each.itemsize for each in _TYPES.values())


class Block(NamedTuple):
    """Rows of a file: the position of the first one in the object, and their bytes in the file."""

    position: int
    rows: int
    start: int
    length: int
    sha256: bytes


def headers_folder(day: date) -> str:
    return staging_key(day, HEADERS)


def headers_file(sha256: str) -> str:
    """The file's name; other columns, or another version of the format or of the scan, have other names."""
    return f"{sha256}-{_LAYOUT}"


def staged_headers(lake: ObjectStore, day: date) -> frozenset[str]:
    """Names of all files of the run date, of any version."""
    return frozenset(found.key.rpartition("/")[2] for found in lake.list(headers_folder(day)))


def clear_headers(lake: ObjectStore, day: date) -> None:
    """Removes the files of the run date, once `index` has used them."""
    keys = [found.key for found in lake.list(headers_folder(day))]
    with ThreadPoolExecutor(DELETE_THREADS) as threads:
        list(threads.map(lake.delete, keys))


def abandoned_headers(lake: ObjectStore, last: date) -> Iterator[ObjectStat]:
    """Files of run dates up to `last` whose `index` was never finished."""
    for found in lake.list(STAGING):
        day, _, rest = found.key.removeprefix(STAGING).partition("/")
        if rest.startswith(f"{HEADERS}/") and date.fromisoformat(day) <= last:
            yield found


class HeaderFile(ScratchFile):
    """Collects the headers of one object whose bytes are added in pieces. Use as a context manager.

    It holds an incomplete batch and the rows of a block, however large the object is.
    """

    def __init__(self, lake: ObjectStore) -> None:
        super().__init__(lake, ".headers")
        self._file: BinaryIO | None = None
        self._blocks: list[Block] = []
        self._held, self._needed = bytearray(), 0
        self._parts: list[HeaderColumns] = []
        self._rows, self._end, self._is_over = 0, 0, False

    def add(self, piece: bytes) -> None:
        """The next bytes of the object; only a batch that continues in the next piece is copied."""
        start = 0
        while self._held and not self._is_over:
            stop = start + self._needed - len(self._held)
            self._held += piece[start:stop]
            if stop > len(piece):
                return
            start = stop
            self._scan(bytes(self._held), 0)
        if not self._is_over:
            self._scan(piece, start)

    def finish(self, folder: str, *, sha256: str, size: int) -> bool:
        """Moves the file into `folder`, if it has any use; the object is the one of this digest and size."""
        if not self._rows or self._has_small_batches:
            return False
        self._write_blocks(fewest=1)
        directory = b"".join(_BLOCK.pack(*block) for block in self._blocks)
        self._append(directory + _TRAILER.pack(len(self._blocks), _seal(directory, sha256, size)))
        self._close()
        self._store.adopt(self._path, f"{folder}/{headers_file(sha256)}", durable=False)
        return True

    @property
    def _has_small_batches(self) -> bool:
        return self._rows >= SAMPLE and self._end < self._rows * SMALLEST_BATCH

    def _scan(self, data: bytes, start: int) -> None:
        """The batches of `data` from `start` on, which is at `_end` in the object."""
        origin, position, reason = self._end - start, start, StopReason.FULL
        while reason is StopReason.FULL:
            found = scan_chunk(data, start=position, capacity=ROWS_AT_A_TIME)
            position, reason = found.stop.position, found.stop.reason
            older = np.flatnonzero(found.columns.magic != MAGIC_V2)
            self._take(found.columns.part(0, int(older[0])) if older.size else found.columns, origin)
            reason = StopReason.BAD_MAGIC if older.size else reason
        self._end, self._held = origin + position, bytearray(data[position:])
        self._needed = _needed(self._held)
        is_stuck = reason not in {StopReason.END, StopReason.TORN}
        if is_stuck or self._needed > LARGEST_HELD or self._has_small_batches:
            self._is_over, self._held = True, bytearray()

    def _take(self, columns: HeaderColumns, origin: int) -> None:
        if columns.rows:
            kept = columns.pick(np.arange(columns.rows))  # a view would keep unused rows, too
            kept.position[:] += origin
            self._parts.append(kept)
            self._rows += kept.rows
            self._write_blocks(fewest=ROWS_PER_BLOCK)

    def _write_blocks(self, *, fewest: int) -> None:
        """Writes blocks as long as `fewest` rows are held; which rows a block has depends on no piece."""
        held = sum(part.rows for part in self._parts)
        if held < fewest:
            return
        rows, start = concatenate(self._parts), 0
        while held - start >= fewest:
            stop = min(start + ROWS_PER_BLOCK, held)
            self._write(rows.part(start, stop))
            start = stop
        self._parts = [rows.part(start, held)] if start < held else []

    def _write(self, rows: HeaderColumns) -> None:
        plain = b"".join(getattr(rows, name).tobytes() for name in _TYPES)
        data: bytes = _CODEC.compress(plain, asbytes=True)
        start = self._blocks[-1].start + self._blocks[-1].length if self._blocks else 0
        digest = hashlib.sha256(data).digest()
        self._blocks.append(Block(int(rows.position[0]), rows.rows, start, len(data), digest))
        self._append(data)

    def _append(self, data: bytes) -> None:
        with translated(str(self._path)):
            if self._file is None:
                self._file = self._path.open("wb")
            self._file.write(data)

    def _close(self) -> None:
        if self._file is not None:
            with translated(str(self._path)):
                self._file.close()


def read_headers(
    lake: ObjectStore, folder: str, *, sha256: str, size: int, start: int, stop: int
) -> Iterator[HeaderColumns]:
    """Headers of the batches that begin in `start`..`stop`, in parts, as far as they follow one another.

    Nothing if no batch begins at `start`. Where the file is missing or damaged, the headers end.
    """
    key = f"{folder}/{headers_file(sha256)}"
    for block in _blocks_within(_directory(lake, key, sha256, size), start, stop):
        found = _rows(lake, key, block)
        if found is None:
            return
        rows = found.part(*np.searchsorted(found.position, [start, stop]).tolist())
        if not rows.rows or rows.position[0] != start:
            return
        yield rows
        start = int(rows.position[-1] + rows.size[-1])


def _directory(lake: ObjectStore, key: str, sha256: str, size: int) -> Sequence[Block]:
    """The blocks of the file; none if it does not exist, or is no whole file of this object."""
    found = lake.stat(key)
    if found is None or found.size < _TRAILER.size:
        return ()
    tail = _range(lake, key, max(found.size - TAIL_BYTES, 0), min(found.size, TAIL_BYTES))
    if len(tail) < _TRAILER.size:
        return ()
    count, seal = _TRAILER.unpack(tail[-_TRAILER.size :])
    length = count * _BLOCK.size
    if not 0 < length <= found.size - _TRAILER.size:
        return ()
    if length + _TRAILER.size > len(tail):
        tail = _range(lake, key, found.size - length - _TRAILER.size, length + _TRAILER.size)
    directory = tail[-length - _TRAILER.size : -_TRAILER.size]
    if _seal(directory, sha256, size) != seal:
        return ()
    return tuple(map(Block._make, _BLOCK.iter_unpack(directory)))


def _blocks_within(blocks: Sequence[Block], start: int, stop: int) -> Iterator[Block]:
    """Those with batches that begin in `start`..`stop`."""
    ends = (*(after.position for after in blocks[1:]), stop)
    for block, end in zip(blocks, ends, strict=False):
        if block.position < stop and end > start:
            yield block


def _rows(lake: ObjectStore, key: str, block: Block) -> HeaderColumns | None:
    data = _range(lake, key, block.start, block.length)
    if hashlib.sha256(data).digest() != block.sha256:
        return None
    plain: bytes = _CODEC.decompress(data, block.rows * _ROW_BYTES, asbytes=True)
    columns, start = {}, 0
    for name, kind in _TYPES.items():
        columns[name] = np.frombuffer(plain, kind, count=block.rows, offset=start)
        start += block.rows * kind.itemsize
    return HeaderColumns(crc_ok=np.ones(block.rows, dtype=np.bool_), **columns)


def _range(lake: ObjectStore, key: str, start: int, length: int) -> bytes:
    try:
        return lake.read_range(key, start, length)
    except ObjectMissing:
        return b""


def _seal(directory: bytes, sha256: str, size: int) -> bytes:
    return hashlib.sha256(f"{sha256} {size} ".encode() + directory).digest()


def _needed(rest: bytearray) -> int:
    """Bytes of the batch that `rest` begins with, at least those of a header, which show its length."""
    length = int.from_bytes(rest[LENGTH_OFFSET:LOG_OVERHEAD], signed=True)
    return max(LOG_OVERHEAD + length, HEADER_SIZE) if len(rest) >= LOG_OVERHEAD else HEADER_SIZE
