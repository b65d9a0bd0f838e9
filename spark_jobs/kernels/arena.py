"""Memory that grows while payloads are put into it, one after the other."""

import numpy as np

from spark_jobs.kernels.memory import Bytes, as_bytes


class Arena:
    """`used` bytes of payloads, and room after them; only what was written costs memory."""

    __slots__ = ("memory", "used")

    def __init__(self, capacity: int) -> None:
        self.used = 0
        self.memory = np.empty(capacity, dtype=np.uint8)

    @property
    def content(self) -> Bytes:
        """What was put in; read-only, and valid until the arena grows."""
        content = self.memory[: self.used]
        content.flags.writeable = False
        return content

    def clear(self) -> None:
        """Forgets the payloads and keeps the memory; `content` of before must not be used any more."""
        self.used = 0

    def reserve(self, size: int) -> None:
        """Makes sure that `size` bytes fit after those that are used; `memory` may be another afterwards."""
        if self.used + size > self.memory.size:
            memory = np.empty(max(2 * self.memory.size, self.used + size), dtype=np.uint8)
            memory[: self.used] = self.memory[: self.used]
            self.memory = memory

    def put(self, payload: bytes) -> None:
        """Copies `payload` in."""
        self.reserve(len(payload))
        self.memory[self.used : self.used + len(payload)] = as_bytes(payload)
        self.used += len(payload)
