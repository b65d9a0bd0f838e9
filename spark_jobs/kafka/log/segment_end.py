"""Where a closed segment ends, by its last batches alone: the rest of it is not read."""

from collections.abc import Callable
from struct import Struct

from spark_jobs.kafka.formats.record_batch import LOG_OVERHEAD, MAGIC_V2

ReadRange = Callable[[int, int], bytes]
"""Up to so many bytes from a position on."""
WINDOW_BYTES = 256 * 2**10
_PREFIX = Struct(">qi4xb")  # base offset, length, leader epoch, magic
_LAST_OFFSET_DELTA = Struct(">i")
_LAST_OFFSET_DELTA_AT = 23
_HEAD_BYTES = _LAST_OFFSET_DELTA_AT + _LAST_OFFSET_DELTA.size


def next_offset(read: ReadRange, size: int, *, position: int, base_offset: int) -> int:
    """The offset after the last whole batch of a segment of `size` bytes; a batch begins at `position`.

    Bytes that are no batch end the walk: what they are is for the reader of the segment to report.
    """
    found = base_offset
    window, start = b"", position
    while position + _HEAD_BYTES <= size:
        if position + _HEAD_BYTES > start + len(window):
            window, start = read(position, WINDOW_BYTES), position
        head = window[position - start : position - start + _HEAD_BYTES]
        if len(head) < _HEAD_BYTES:
            break
        offset, length, magic = _PREFIX.unpack_from(head)
        end = position + LOG_OVERHEAD + length
        if length < _HEAD_BYTES - LOG_OVERHEAD or end > size or magic > MAGIC_V2:
            break
        delta = _LAST_OFFSET_DELTA.unpack_from(head, _LAST_OFFSET_DELTA_AT)[0] if magic == MAGIC_V2 else 0
        found, position = max(found, offset + max(delta, 0) + 1), end
    return found
