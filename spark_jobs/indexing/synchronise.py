"""Finding a batch in the middle of an object: a guess, which the driver checks against the range before.

A record's value may hold whole batches, so no amount of looking can prove a boundary. A guess is good if the
bytes look like a header, something like a batch follows and the CRC is right. Legacy messages are not looked
for: a range of them is read once its neighbour is known.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from spark_jobs.indexing.walk import WalkLimits
from spark_jobs.indexing.window import StagedBytes, Window
from spark_jobs.kernels.headers import scan_chunk
from spark_jobs.protocol.plausible import looks_like_batch
from spark_jobs.protocol.record_batch import (
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAGIC_V2,
    read_header,
)

SEARCH_BYTES = 2**18
"""Searched at a time: a boundary is usually near, and the walk reads the bytes again."""
KNOWN_BITS = 7
"""Attributes that mean something (facts §1.3); text in their place has others."""
EFFORT = 4
"""How many times the bytes of its range a worker may spend on guesses that turn out wrong."""


class Searcher:
    """Looks for boundaries of one range; spends a bounded effort, then gives up."""

    def __init__(self, staged: StagedBytes, *, start: int, stop: int, limits: WalkLimits) -> None:
        self._window, self._stop, self._limits = Window(staged=staged, start=start), stop, limits
        self._effort = EFFORT * (stop - start)

    def next_boundary(self, position: int) -> int | None:
        """The first position from `position` on where a batch seems to begin; None if none shows itself."""
        while position < self._stop and self._effort > 0:
            beyond = min(position + SEARCH_BYTES, self._stop)
            self._window = self._window.move(position, min(beyond + HEADER_SIZE, self._window.staged.size))
            found = next(filter(self._is_convincing, self._candidates(beyond)), None)
            if found is not None:
                return found
            position = beyond
        return None

    def _candidates(self, beyond: int) -> Iterator[int]:
        """Positions before `beyond` whose magic byte and length could be those of a batch."""
        data = np.frombuffer(self._window.data, dtype=np.uint8)
        places = np.flatnonzero(data[MAGIC_OFFSET : data.size - HEADER_SIZE + MAGIC_OFFSET + 1] == MAGIC_V2)
        sizes = _sizes(data, places)
        largest = np.minimum(self._limits.max_batch_bytes, self._room() - places)
        for place in places[(sizes >= HEADER_SIZE) & (sizes <= largest)]:
            if self._effort > 0 and self._window.start + place < beyond:
                yield self._window.start + int(place)

    def _room(self) -> int:
        return self._window.staged.size - self._window.start

    def _is_convincing(self, position: int) -> bool:
        head = self._window.look(position, HEADER_SIZE)
        if not _is_usual(head):
            return False
        size = read_header(head).size
        after = position + size  # looked at first: it costs a few bytes, a checksum all of them
        if after < self._window.staged.size and not _is_usual(self._window.look(after, HEADER_SIZE)):
            return False
        self._effort -= size
        return bool(scan_chunk(self._window.look(position, size), capacity=1).columns.rows)


def _is_usual(head: bytes) -> bool:
    """Whether it looks like a batch and like what Kafka writes: a broker would take others, too."""
    if not looks_like_batch(head) or head[MAGIC_OFFSET] != MAGIC_V2:
        return False
    header = read_header(head)
    return header.attributes >> KNOWN_BITS == 0 and header.record_count <= header.last_offset_delta + 1


def _sizes(data: npt.NDArray[np.uint8], places: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """The size that a header at each place would claim; a negative length makes a small one."""
    length = np.zeros(places.size, dtype=np.int64)
    for byte in range(LENGTH_OFFSET, LOG_OVERHEAD):
        length = length << 8 | data[places + byte]
    return length.astype(np.int32) + np.int64(LOG_OVERHEAD)
