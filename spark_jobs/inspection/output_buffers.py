"""Buffers that go round between those who write lines and those who print them."""

from collections import deque

import numpy as np

from spark_jobs.kernels.memory import Bytes

SIZE = 4 * 1024 * 1024


class OutputBuffers:
    """Free buffers; an append or a pop of a deque is atomic, so threads may share them."""

    def __init__(self) -> None:
        self._free: deque[Bytes] = deque()

    def take(self, at_least: int = 0) -> Bytes:
        """A buffer of the usual size, or of the size that one long record needs."""
        if at_least > SIZE:
            return np.empty(at_least, dtype=np.uint8)
        try:
            return self._free.pop()
        except IndexError:
            return np.empty(SIZE, dtype=np.uint8)

    def give_back(self, buffer: Bytes) -> None:
        """The lines in it have been printed."""
        if buffer.size == SIZE:
            self._free.append(buffer)
