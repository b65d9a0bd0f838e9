"""A file that bypasses the page cache (`O_DIRECT`), for output that its run does not read again.

Through the cache the bytes would be copied once more, and evict pages that the run still has to read.
"""

import errno
import fcntl
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

BLOCK = 4096
"""`O_DIRECT` needs memory address, file position and length in whole blocks."""
DIRECT: int = getattr(os, "O_DIRECT", 0)

Bytes = npt.NDArray[np.uint8]


class DirectFile:
    """A new file at `path`; a thread writes one part while the caller fills the next.

    Where the system has no `O_DIRECT`, or with `cached`, it is an ordinary file.
    """

    def __init__(self, path: Path, *, cached: bool = False) -> None:
        self._file = _open(path, 0 if cached else DIRECT)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="write")
        self._writing: Future[None] | None = None
        self._making, self._written = _blocks(0), _blocks(0)
        self._left = self._size = self._position = 0

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._position + self._left

    def room(self, size: int) -> Bytes:
        """The buffer to put the next `size` bytes into, before calling `push`."""
        if self._making.size < self._left + size:
            larger = _blocks(self._left + size)
            larger[: self._left] = self._making[: self._left]
            self._making = larger
        self._size = size
        return self._making[self._left : self._left + size]

    def push(self) -> None:
        """Writes the bytes in the buffer; the rest that fills no block is written with the next part."""
        end = self._left + self._size
        whole = end - end % BLOCK
        self._wait()
        if self._written.size < BLOCK:
            self._written = _blocks(BLOCK)
        self._written[: end - whole] = self._making[whole:end]
        self._writing = self._writer.submit(_write, self._file, self._making[:whole].data, self._position)
        self._making, self._written = self._written, self._making
        self._left, self._size, self._position = end - whole, 0, self._position + whole

    def close(self) -> None:
        """Writes what is left; closing twice is allowed."""
        if self._file < 0:
            return
        try:
            self._wait()
            _through_cache(self._file)
            _write(self._file, self._making[: self._left].data, self._position)
        finally:
            self._writer.shutdown()
            os.close(self._file)
            self._file = -1

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


def _open(path: Path, direct: int) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(path, flags | direct, 0o666)
    except OSError as error:
        if not direct or error.errno != errno.EINVAL:
            raise
        path.unlink(missing_ok=True)  # some file systems create it before they refuse
        return os.open(path, flags, 0o666)


def _blocks(size: int) -> Bytes:
    """Memory for `size` bytes, aligned to a block."""
    memory = np.empty(size + BLOCK, dtype=np.uint8)
    start = -memory.ctypes.data % BLOCK
    return memory[start : start + size]


def _write(file: int, data: memoryview, position: int) -> None:
    written = 0
    while written < len(data):
        try:
            written += os.pwrite(file, data[written:], position + written)
        except OSError as error:
            if error.errno != errno.EINVAL or not _through_cache(file):
                raise


def _through_cache(file: int) -> bool:
    """Switches the file to ordinary writes through the cache; False if it already uses them."""
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    fcntl.fcntl(file, fcntl.F_SETFL, flags & ~DIRECT)
    return bool(flags & DIRECT)
