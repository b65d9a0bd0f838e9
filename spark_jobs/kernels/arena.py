"""Memory that grows while payloads are put into it, one after the other."""

import numpy as np

from spark_jobs.kernels.memory import Bytes


class Arena:
    """`used` bytes of payloads, and room after them; only what was written costs memory."""

    __slots__ = ("_memory", "used", "view")

    def __init__(self, capacity: int) -> None:
        self.used = 0
        self._memory = np.empty(capacity, dtype=np.uint8)
        self.view = memoryview(self._memory.data)

    @property
    def content(self) -> Bytes:
        """What was put in; read-only, and valid until the arena grows."""
        content = self._memory[: self.used]
        content.flags.writeable = False
        return content

    def clear(self) -> None:
        """Forgets the payloads and keeps the memory; `content` of before must not be used any more."""
        self.used = 0

    def reserve(self, size: int) -> None:
        """Makes sure that `size` bytes fit after those that are used; `view` may be another afterwards."""
        if self.used + size > len(self._memory):
            memory = np.empty(max(2 * len(self._memory), self.used + size), dtype=np.uint8)
            memory[: self.used] = self._memory[: self.used]
            self._memory, self.view = memory, memoryview(memory.data)

    def put(self, payload: bytes | memoryview) -> None:
        """Copies `payload` in."""
        self.reserve(len(payload))
        self.view[self.used : self.used + len(payload)] = payload
        self.used += len(payload)
