"""A digest of a file of batches by their headers alone: each header has the checksum of its batch.

Files with the same digest have the same batches, or differ in bytes that are damaged in at least one of them:
then a batch there does not match its checksum. What is no batch of format 2 is covered whole, and so is
everything behind it. A batch that the end of the file cuts off counts by its header.
"""

import hashlib
from collections.abc import Callable
from struct import Struct

from spark_jobs.kafka.formats.record_batch import HEADER_SIZE, LENGTH_OFFSET, MAGIC_OFFSET, MAGIC_V2

_LENGTH = Struct(">i")
OVERHEAD = LENGTH_OFFSET + _LENGTH.size
"""Bytes of a batch that its length does not count."""
REST_BYTES = 4 * 2**20
SAMPLE, SMALLEST_BATCH = 64, 8192
"""If batches are smaller on average, after so many of them, reading all bytes costs no more than headers."""


def batch_size(header: bytes) -> int:
    """The size of the batch with this header; 0 if this is no whole header of format 2."""
    if len(header) < HEADER_SIZE or header[MAGIC_OFFSET] != MAGIC_V2:
        return 0
    size = OVERHEAD + int(_LENGTH.unpack_from(header, LENGTH_OFFSET)[0])
    return size if size >= HEADER_SIZE else 0


def header_digest(read: Callable[[int, int], bytes], size: int) -> str:
    """The digest of a file of `size` bytes, by `read(start, length)`; empty if its batches are small."""
    total, position, count = hashlib.sha256(), 0, 0
    while found := batch_size(header := read(position, min(HEADER_SIZE, size - position))):
        total.update(header)
        position, count = position + found, count + 1
        if count >= SAMPLE and position < count * SMALLEST_BATCH:
            return ""
        if position >= size:
            break
    for start in range(position, size, REST_BYTES):
        total.update(read(start, min(REST_BYTES, size - start)))
    total.update(size.to_bytes(8))
    return total.hexdigest()


class HeaderDigest:
    """The same digest of bytes that are added in pieces; any batches."""

    def __init__(self) -> None:
        self._total = hashlib.sha256()
        self._held, self._skip, self._size = b"", 0, 0
        self._is_rest = False

    def update(self, data: bytes, /) -> None:
        """Adds `data`."""
        self._size += len(data)
        if self._held:
            data = self._held + data
        position = 0
        while not self._is_rest:
            skipped = min(self._skip, len(data) - position)
            position, self._skip = position + skipped, self._skip - skipped
            if len(data) - position < HEADER_SIZE:
                break
            header = data[position : position + HEADER_SIZE]
            self._skip = batch_size(header)
            self._is_rest = not self._skip
            if self._skip:
                self._total.update(header)
        if self._is_rest:
            self._total.update(memoryview(data)[position:])
        self._held = b"" if self._is_rest else data[position:]

    def hexdigest(self) -> str:
        """The digest of all bytes so far."""
        total = self._total.copy()
        total.update(self._held)
        total.update(self._size.to_bytes(8))
        return total.hexdigest()

    def copy(self) -> "HeaderDigest":
        """An independent one with the same bytes so far."""
        other = HeaderDigest()
        other._total, other._held, other._skip = self._total.copy(), self._held, self._skip
        other._size, other._is_rest = self._size, self._is_rest
        return other
