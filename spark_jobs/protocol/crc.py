"""CRC-32C (Castagnoli), the checksum of v2 batches and of producer snapshots (facts §1.3, §1.8)."""

import google_crc32c

_CHUNK = 1 << 16
"""The library wants `bytes`: copying in pieces keeps a memory-mapped payload out of the heap."""


def crc32c(data: bytes | memoryview) -> int:
    """Checksum of `data` as an unsigned 32-bit number."""
    if isinstance(data, bytes):
        return int(google_crc32c.value(data))
    crc = 0
    for start in range(0, len(data), _CHUNK):
        crc = int(google_crc32c.extend(crc, bytes(data[start : start + _CHUNK])))
    return crc
