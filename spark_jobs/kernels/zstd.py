"""zstd inside kernels, by its own library, with one context per thread instead of one per payload.

The library is the one that zstandard brings along, found at run time; kernels get the addresses of its
functions, as they get that of CRC-32C. Whatever it does not finish is left to the pure way, which alone
decides what is an error.
"""

import ctypes
from functools import cache
from importlib.util import find_spec
from threading import local
from typing import NamedTuple

from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.memory import Bytes, call_decompress, load_uint8, load_uint32
from spark_jobs.kernels.outcome import DONE, NEEDS_ROOM, UNUSUAL, Outcome

_LIBRARY_MODULE = "zstandard._cffi"
_MAGIC = 0x28B52FFD
_SINGLE_SEGMENT, _CHECKSUM, _UNUSUAL_FLAGS = 0x20, 0x04, 0x0B
"""Flags of a frame; the last are a dictionary and what is reserved."""
_RLE, _RESERVED = 1, 3
_LARGEST_BLOCK = 1 << 17
_LARGEST_WINDOW = 1 << 27
"""Bytes that readers take at most, unlike the call that is used here."""
_SMALLEST_FRAME = 9
_NOT_USUAL = -1
_USUAL_GROWTH, _SMALLEST_ROOM = 16, 1 << 18
"""Room for a payload: so many times its size, and not less than this."""


class ZstdCalls(NamedTuple):
    """Addresses of the library's function and of the thread's context; 0 where there is no library."""

    decompress: int
    context: int


class _Context:
    """What the library needs to decompress, for one thread."""

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
    """What kernels of this thread need."""
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
    """Bytes that one frame and nothing behind it may hold, or `_NOT_USUAL` if readers might refuse it.

    A reader of streams, as Kafka's is, keeps one window of content and takes blocks of a limited size: a
    match or a block beyond is an error. The call that is used here has the whole content before it and would
    continue, so it gets only frames whose content fits into their window. A single segment is its own window.
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
) -> Outcome:
    """The content of the frame from `start` to `end`, put behind the bytes of `memory` that are used."""
    most = _most_content(data, start, end) if calls.context else _NOT_USUAL
    if most == _NOT_USUAL:
        return Outcome(UNUSUAL, used, 0)
    needed = max(_SMALLEST_ROOM, _USUAL_GROWTH * (end - start))
    if memory.size - used < needed:
        return Outcome(NEEDS_ROOM, used, needed)
    room = min(memory.size - used, limit, most)
    size = call_decompress(calls.decompress, calls.context, memory, used, room, data, start, end - start)
    if size < 0 or size > room:  # errors are the largest numbers, which are negative here
        return Outcome(UNUSUAL, used, 0)
    return Outcome(DONE, used + size, 0)
