"""Decompresses the payloads of many batches into one arena: twin of `kafka.formats.compression.decompress`.

One compiled loop over the batches decompresses the frames that lz4 and zstd writers usually produce.
Everything else, such as a damaged stream or an unusual frame, goes to the pure function, which alone decides
what is an error. So there cannot be two answers.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from threading import local
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.errors import CorruptData
from spark_jobs.kafka.formats.codecs.lz4 import xxhash32
from spark_jobs.kafka.formats.compression import DEFAULT_LIMIT, decompress
from spark_jobs.kafka.formats.record_batch import CODEC_MASK, HEADER_SIZE, Codec
from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import (
    Arena,
    Bytes,
    as_bytes,
    call_decompress,
    call_lz4,
    copy_bytes,
    load_uint8,
    load_uint32,
)

DONE, UNUSUAL, NEEDS_ROOM = 0, 1, 2
"""Results of a kernel: decompressed; left to the pure function; to be repeated with more memory."""


class CodecResult(NamedTuple):
    """`used` bytes of memory hold content; after NEEDS_ROOM, `room` further bytes suffice."""

    status: int
    used: int
    room: int


# zstd: by its own library, with one context per thread instead of one per payload.
_LIBRARY_MODULE = "zstandard._cffi"
_MAGIC = 0x28B52FFD
_SINGLE_SEGMENT, _CHECKSUM, _UNUSUAL_FLAGS = 0x20, 0x04, 0x0B
"""Flags of a frame; the last are a dictionary id and the reserved bit."""
_RLE, _RESERVED = 1, 3
_LARGEST_BLOCK = 1 << 17
_LARGEST_WINDOW = 1 << 27
"""Limit of streaming readers in bytes, which the one-shot call used here does not have."""
_SMALLEST_FRAME = 9
_NOT_USUAL = -1
_USUAL_GROWTH, _SMALLEST_ROOM = 16, 1 << 18
"""Room for a payload: this multiple of its size, and at least this many bytes."""


class ZstdCalls(NamedTuple):
    """Addresses of the library's function and of the thread's context; 0 where there is no library."""

    decompress: int
    context: int


class _Context:
    """The library's decompression context of one thread."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.address: int = library.ZSTD_createDCtx() or 0

    def __del__(self) -> None:
        self._library.ZSTD_freeDCtx(self.address)


_of_thread = local()
_NO_CALLS = ZstdCalls(0, 0)


@cache
def zstd_library() -> ctypes.CDLL | None:
    """The library, or None where it cannot be found."""
    module = find_spec(_LIBRARY_MODULE)
    if module is None or module.origin is None:
        return None
    library = ctypes.CDLL(module.origin)
    if not hasattr(library, "ZSTD_decompressDCtx"):
        return None
    library.ZSTD_createDCtx.restype = ctypes.c_void_p
    library.ZSTD_freeDCtx.argtypes = [ctypes.c_void_p]
    return library


def zstd_calls() -> ZstdCalls:
    """The addresses that kernels of this thread need."""
    library = zstd_library()
    if library is None:
        return _NO_CALLS
    if not hasattr(_of_thread, "context"):
        _of_thread.context = _Context(library)
    address: int = _of_thread.context.address
    if not address:
        return _NO_CALLS
    return ZstdCalls(
        decompress=ctypes.cast(library.ZSTD_decompressDCtx, ctypes.c_void_p).value or 0,
        context=address,
    )


@helper
def _header_size(flags: int) -> int:
    """Bytes before the first block, of a frame without a dictionary."""
    single, size_code = flags & _SINGLE_SEGMENT != 0, flags >> 6
    window, content_size = 0 if single else 1, 1 << size_code
    if size_code == 0 and not single:
        content_size = 0
    return 5 + window + content_size


@helper
def _most_content(data: Bytes, start: int, end: int) -> int:
    """Content size limit of a single frame with nothing after it, or `_NOT_USUAL` if readers might refuse it.

    A streaming reader, such as Kafka's, keeps one window of content and accepts blocks up to a limit: a match
    or a block beyond is an error. The one-shot call used here has no such limits, so it gets only frames
    whose content fits into their window. A single segment is its own window.
    """
    if end - start < _SMALLEST_FRAME or load_uint32(data, start) != _MAGIC:
        return _NOT_USUAL
    flags = load_uint8(data, start + 4)
    if flags & _UNUSUAL_FLAGS:
        return _NOT_USUAL
    most = _LARGEST_WINDOW
    if flags & _SINGLE_SEGMENT == 0:
        window = load_uint8(data, start + 5)
        base = 1 << (10 + (window >> 3))
        most = min(most, base + (base >> 3) * (window & 7)) if base <= _LARGEST_WINDOW else _NOT_USUAL
    position = start + _header_size(flags)
    while end - position >= 3:
        block = load_uint8(data, position) | load_uint8(data, position + 1) << 8
        block |= load_uint8(data, position + 2) << 16
        kind, size = block >> 1 & 3, block >> 3
        if kind == _RESERVED or size > _LARGEST_BLOCK:
            return _NOT_USUAL
        position += 3 + (1 if kind == _RLE else size)
        if block & 1:
            position += 4 if flags & _CHECKSUM else 0
            return most if position == end else _NOT_USUAL
    return _NOT_USUAL


@helper
def put_zstd(
    calls: ZstdCalls, memory: Bytes, used: int, data: Bytes, start: int, end: int, limit: int
) -> CodecResult:
    """The content of the frame from `start` to `end`, put behind the bytes of `memory` that are used."""
    most = _most_content(data, start, end) if calls.context else _NOT_USUAL
    if most == _NOT_USUAL:
        return CodecResult(UNUSUAL, used, 0)
    needed = max(_SMALLEST_ROOM, _USUAL_GROWTH * (end - start))
    if memory.size - used < needed:
        return CodecResult(NEEDS_ROOM, used, needed)
    room = min(memory.size - used, limit, most)
    size = call_decompress(calls.decompress, calls.context, memory, used, room, data, start, end - start)
    if size < 0 or size > room:  # error codes are the largest unsigned numbers, negative as int64
        return CodecResult(UNUSUAL, used, 0)
    return CodecResult(DONE, used + size, 0)


# lz4: one frame of usual form, its blocks decompressed by lz4's own library (facts §1.7).
_LZ4_MODULE = "lz4.block._block"
_LZ4_MAGIC = 0x04224D18
_FLAGS, _CONTENT_CHECKSUM = 0x60, 0x04
"""Version 01 with independent blocks, as Java, librdkafka and Go write it."""
_START_SIZE = 7
_STORED = 0x80000000
_MOST_PER_BYTE = 255
_FAILED = -1


@cache
def lz4_address() -> int:
    """The address of `LZ4_decompress_safe`, which checks all bounds; 0 where there is no library."""
    try:
        module = find_spec(_LZ4_MODULE)
    except ModuleNotFoundError:
        return 0
    if module is None or module.origin is None:
        return 0
    library = ctypes.CDLL(module.origin)
    if not hasattr(library, "LZ4_decompress_safe"):
        return 0
    return ctypes.cast(library.LZ4_decompress_safe, ctypes.c_void_p).value or 0


def _descriptor_checks() -> Bytes:
    """By content checksum and block size: the byte after the two of the descriptor."""
    checks = np.zeros((2, 8), dtype=np.uint8)
    for has_checksum, flags in enumerate((_FLAGS, _FLAGS | _CONTENT_CHECKSUM)):
        for size_code in range(4, 8):
            checks[has_checksum, size_code] = xxhash32(bytes((flags, size_code << 4))) >> 8 & 0xFF
    return checks


_CHECKS = _descriptor_checks()


@helper
def _largest_block(data: Bytes, start: int, end: int) -> int:
    """Largest block size of the frame at `start`, or `_FAILED` if it is not a usual frame."""
    if end - start < _START_SIZE or load_uint32(data, start) != _LZ4_MAGIC:
        return _FAILED
    flags, descriptor = load_uint8(data, start + 4), load_uint8(data, start + 5)
    size_code = descriptor >> 4
    if flags & ~_CONTENT_CHECKSUM != _FLAGS or descriptor & 0xF or size_code < 4 or size_code > 7:
        return _FAILED
    if load_uint8(data, start + 6) != _CHECKS[flags >> 2 & 1, size_code]:
        return _FAILED
    return 1 << (2 * size_code + 8)


@helper
def _little_word(data: Bytes, position: int) -> int:
    word = load_uint32(data, position)
    return word >> 24 | word >> 8 & 0xFF00 | (word & 0xFF00) << 8 | (word & 0xFF) << 24


@helper
def put_lz4(
    address: int, memory: Bytes, used: int, data: Bytes, start: int, end: int, limit: int
) -> CodecResult:
    """The content of the frame from `start` to `end`, put behind the bytes of `memory` that are used."""
    largest = _largest_block(data, start, end) if address else _FAILED
    if largest == _FAILED:
        return CodecResult(UNUSUAL, used, 0)
    after = 4 if load_uint8(data, start + 4) & _CONTENT_CHECKSUM else 0
    position, out = start + _START_SIZE, used
    while end - position >= 4 and out - used <= limit:
        word = _little_word(data, position)
        position += 4
        size = word & ~_STORED
        if size == 0:
            is_whole = end - position >= after
            return CodecResult(DONE, out, 0) if is_whole else CodecResult(UNUSUAL, used, 0)
        if size > min(largest, end - position):
            break
        room = size if word & _STORED else min(largest, size * _MOST_PER_BYTE)
        if memory.size - out < room:
            return CodecResult(NEEDS_ROOM, used, out - used + room)
        if word & _STORED:
            copy_bytes(memory, out, data, position, size)
            out += size
        else:
            found = call_lz4(address, memory, out, room, data, position, size)
            if found < 0 or found > room:
                break
            out += found
        position += size
    return CodecResult(UNUSUAL, used, 0)


DEFAULT_BUDGET = 4 * 1024 * 1024
"""Small enough that decompressed bytes are still in the cache when they are decoded."""
_FIRST_ROOM = 4
"""Initial bytes of room per compressed byte."""
_NONE, _LZ4, _ZSTD = int(Codec.NONE), int(Codec.LZ4), int(Codec.ZSTD)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadProblem:
    """A batch, counted as in the call, whose payload could not be read."""

    batch: int
    error: CorruptData


class Compressed(NamedTuple):
    """The header columns for the position and the codec of payloads."""

    position: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    attributes: npt.NDArray[np.int16]
    record_count: npt.NDArray[np.int32]


class Calls(NamedTuple):
    """Addresses of the libraries' functions; 0 where there is no library."""

    lz4: int
    zstd: ZstdCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """The first batches' records: those of batch i are `arena[start[i]:end[i]]`, none if it has a problem."""

    arena: Bytes
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    problems: tuple[PayloadProblem, ...]

    @property
    def batches(self) -> int:
        return self.start.size


def decompress_batches(
    buffer: Any,
    headers: HeaderColumns,
    *,
    limit: int = DEFAULT_LIMIT,
    budget: int = DEFAULT_BUDGET,
    source: str = "<bytes>",
    origin: int = 0,
    arena: Arena | None = None,
) -> Payloads:
    """Decompresses v2 batches in order, until `budget` bytes are reached; at least one batch if there is one.

    A batch of more than `limit` bytes is a problem of its own. `headers` are from a scan of `buffer`, which
    begins at byte `origin` of `source`. Uncompressed batches are not copied, unless there are compressed ones
    too. An `arena` of an earlier call is overwritten: memory that is mapped already is faster.
    """
    data = as_bytes(buffer)
    if not np.any(headers.attributes & CODEC_MASK):
        return _in_place(data, headers, budget)
    arena = arena or Arena(min(_FIRST_ROOM * int(headers.size.sum()), budget + budget // 4))
    arena.clear()
    return _into_arena(arena, data, headers, limit, budget, source, origin)


def _in_place(data: Bytes, headers: HeaderColumns, budget: int) -> Payloads:
    start, end = headers.position + HEADER_SIZE, headers.position + headers.size
    fitting = int(np.searchsorted(np.cumsum(end - start), budget)) + 1
    return Payloads(arena=data, start=start[:fitting], end=end[:fitting], problems=())


@helper
def _put_plain(memory: Bytes, used: int, data: Bytes, start: int, end: int) -> CodecResult:
    """Copies an uncompressed payload that is among compressed ones."""
    if memory.size - used < end - start:
        return CodecResult(NEEDS_ROOM, used, end - start)
    copy_bytes(memory, used, data, start, end - start)
    return CodecResult(DONE, used + end - start, 0)


@helper
def _put(
    calls: Calls, memory: Bytes, used: int, data: Bytes, start: int, end: int, codec: int, limit: int
) -> CodecResult:
    if codec == _LZ4:
        return put_lz4(calls.lz4, memory, used, data, start, end, limit)
    if codec == _ZSTD:
        return put_zstd(calls.zstd, memory, used, data, start, end, limit)
    if codec == _NONE:
        return _put_plain(memory, used, data, start, end)
    return CodecResult(UNUSUAL, used, 0)


@kernel
def put_usual(
    calls: Calls,
    memory: Bytes,
    used: int,
    data: Bytes,
    batches: Compressed,
    first: int,
    budget: int,
    limit: int,
    edges: npt.NDArray[np.int64],
) -> tuple[int, CodecResult]:
    """(batch, result): the batch where it stopped, from `first` on, and why; fills in `edges`."""
    batch = first
    while batch < batches.position.size and (used < budget or batch == 0):
        if batches.record_count[batch]:  # a broker ignores any payload of an empty batch
            start, end = batches.position[batch] + HEADER_SIZE, batches.position[batch] + batches.size[batch]
            codec = batches.attributes[batch] & CODEC_MASK
            found = _put(calls, memory, used, data, start, end, codec, limit)
            if found.status != DONE:
                return batch, found
            used = found.used
        batch += 1
        edges[batch] = used
    return batch, CodecResult(DONE, used, 0)


def _into_arena(
    arena: Arena, data: Bytes, headers: HeaderColumns, limit: int, budget: int, source: str, origin: int
) -> Payloads:
    batches = Compressed(headers.position, headers.size, headers.attributes, headers.record_count)
    calls = Calls(lz4_address(), zstd_calls())
    problems: list[PayloadProblem] = []
    edges = np.zeros(headers.rows + 1, dtype=np.int64)
    batch, status = 0, UNUSUAL
    while status != DONE:
        batch, (status, arena.used, room) = put_usual(
            calls, arena.memory, arena.used, data, batches, batch, budget, limit, edges
        )
        if status == NEEDS_ROOM:
            arena.reserve(room)
        elif status == UNUSUAL:
            problems += _put_unusual(arena, data, headers, batch, limit, source, origin)
            batch += 1
            edges[batch] = arena.used
    return Payloads(
        arena=arena.content, start=edges[:batch], end=edges[1 : batch + 1], problems=tuple(problems)
    )


def _put_unusual(
    arena: Arena, data: Bytes, headers: HeaderColumns, batch: int, limit: int, source: str, origin: int
) -> Iterator[PayloadProblem]:
    """Decompresses one batch with the pure function; returns its problem, if it has one."""
    position, size = int(headers.position[batch]), int(headers.size[batch])
    payload = memoryview(data.data)[position + HEADER_SIZE : position + size]
    codec, place = int(headers.attributes[batch]) & CODEC_MASK, origin + position + HEADER_SIZE
    try:
        arena.put(decompress(codec, payload, limit=limit, source=source, position=place))
    except CorruptData as error:
        yield PayloadProblem(batch=batch, error=error)
