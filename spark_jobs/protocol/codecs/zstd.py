"""zstd: any frames (facts §1.7)."""

import cramjam

from spark_jobs.protocol.codecs.bounds import Bounds

_FULL = "failed to write whole buffer"
"""What the library says when the output given to it is too small."""


def decompress(data: memoryview, bounds: Bounds) -> bytes:
    """All frames as one stream.

    A frame need not say how much it holds, and 128 KiB may come of 4 bytes: so the output goes into a buffer of a size that
    was decided before, the limit at most.
    """
    size = min(64 * 1024, bounds.limit)
    while True:
        out = bytearray(size)
        try:
            return bytes(memoryview(out)[: cramjam.zstd.decompress_into(data, out)])
        except cramjam.DecompressionError as error:
            if _FULL not in str(error):
                raise bounds.corrupt("zstd frames", error) from None
            bounds.check(size + 1)
            size = min(size * 8, bounds.limit)


def compress(data: bytes) -> bytes:
    """One frame that says neither size nor checksum, as Java's stream writes it."""
    stream = cramjam.zstd.Compressor()
    stream.compress(data)
    return bytes(stream.finish())
