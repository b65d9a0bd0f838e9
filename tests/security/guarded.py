"""Memory between two protected pages: a kernel that accesses one byte too far is killed by a signal."""

import ctypes
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE = mmap.PAGESIZE
_LIBC = ctypes.CDLL(None, use_errno=True)
_NO_ACCESS = 0


def guarded_bytes(size: int) -> npt.NDArray[np.uint8]:
    """`size` bytes that end where a page begins that cannot be read; nor can the page before their first."""
    inside = -(-size // PAGE) * PAGE
    memory = mmap.mmap(-1, inside + 2 * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (start, start + PAGE + inside):
        if _LIBC.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")
    return np.frombuffer(memory, dtype=np.uint8, count=size, offset=PAGE + inside - size)


def guarded(data: bytes) -> npt.NDArray[np.uint8]:
    """A copy of `data` in such memory."""
    copy = guarded_bytes(len(data))
    copy[:] = np.frombuffer(data, dtype=np.uint8)
    return copy


class GuardedNumpy:
    """Replaces numpy in a module that allocates the output of kernels."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        kind = np.dtype(dtype)
        return guarded_bytes(int(np.prod(shape)) * kind.itemsize).view(kind).reshape(shape)

    def zeros(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
        return self.empty(shape, dtype)  # fresh pages are zeros
