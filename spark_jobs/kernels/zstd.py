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
from spark_jobs.kernels.memory import Bytes, call_decompress, call_frame_size, load_uint8, load_uint32
from spark_jobs.kernels.outcome import DONE, NEEDS_ROOM, UNUSUAL, Outcome

_LIBRARY_MODULE = "zstandard._cffi"
_MAGIC = 0x28B52FFD
_SINGLE_SEGMENT = 0x20
_LARGEST_WINDOW = 1 << 27
"""Bytes that readers take at most, unlike the call that is used here."""
_LARGEST_WRITTEN = 17 << 3
"""As a frame writes it."""
_SMALLEST_FRAME = 9
_USUAL_GROWTH, _SMALLEST_ROOM = 16, 1 << 18
"""Room for a payload: so many times its size, and not less than this."""


class ZstdCalls(NamedTuple):
    """Addresses of the library's functions and of the thread's context; 0 where there is no library."""

    frame_size: int
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
_NO_CALLS = ZstdCalls(0, 0, 0)


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
        frame_size=ctypes.cast(library.ZSTD_findFrameCompressedSize, ctypes.c_void_p).value or 0,
        decompress=ctypes.cast(library.ZSTD_decompressDCtx, ctypes.c_void_p).value or 0,
        context=address,
    )


@helper
def _is_usual(calls: ZstdCalls, data: Bytes, start: int, end: int) -> bool:
    """Whether there is one frame and nothing behind it, with a window that every reader takes."""
    if calls.context == 0 or end - start < _SMALLEST_FRAME or load_uint32(data, start) != _MAGIC:
        return False
    single = load_uint8(data, start + 4) & _SINGLE_SEGMENT
    if single == 0 and load_uint8(data, start + 5) > _LARGEST_WRITTEN:
        return False
    return call_frame_size(calls.frame_size, data, start, end - start) == end - start


@helper
def put_zstd(
    calls: ZstdCalls, memory: Bytes, used: int, data: Bytes, start: int, end: int, limit: int
) -> Outcome:
    """The content of the frame from `start` to `end`, put behind the bytes of `memory` that are used."""
    if not _is_usual(calls, data, start, end):
        return Outcome(UNUSUAL, used, 0)
    needed = max(_SMALLEST_ROOM, _USUAL_GROWTH * (end - start))
    if memory.size - used < needed:
        return Outcome(NEEDS_ROOM, used, needed)
    room = min(memory.size - used, limit, _LARGEST_WINDOW)
    size = call_decompress(calls.decompress, calls.context, memory, used, room, data, start, end - start)
    if size < 0 or size > room:  # errors are the largest numbers, which are negative here
        return Outcome(UNUSUAL, used, 0)
    return Outcome(DONE, used + size, 0)
