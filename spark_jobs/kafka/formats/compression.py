"""Compressed payloads by codec id, as tolerant as Kafka's own readers (facts §1.7)."""

from spark_jobs.kafka.formats.codecs import gzip, lz4, snappy, zstd
from spark_jobs.kafka.formats.limits import DEFAULT_LIMITS, OutputLimit
from spark_jobs.kafka.formats.record_batch import MAGIC_V2, Codec

DEFAULT_LIMIT = DEFAULT_LIMITS.decompressed_bytes


def decompress(
    codec_id: int,
    data: bytes | memoryview,
    *,
    magic: int = MAGIC_V2,
    limit: int = DEFAULT_LIMIT,
    source: str = "<bytes>",
    position: int = 0,
) -> bytes:
    """`data` decompressed, at most `limit` bytes; `codec_id` as in the attributes."""
    bounds, view = OutputLimit(limit=limit, source=source, position=position), memoryview(data)
    if codec_id == Codec.GZIP:
        return gzip.decompress(view, bounds)
    if codec_id == Codec.SNAPPY:
        return snappy.decompress(view, bounds)
    if codec_id == Codec.LZ4:
        return lz4.decompress(view, bounds, checks_descriptor=magic > 0)
    if codec_id == Codec.ZSTD and magic >= MAGIC_V2:
        return zstd.decompress(view, bounds)
    if codec_id == Codec.NONE:
        return bytes(view)
    raise bounds.corrupt(f"a codec of magic {magic}", f"codec {codec_id}")


def compress(codec: Codec, data: bytes, *, magic: int = MAGIC_V2) -> bytes:
    """`data` as the Java client would frame it."""
    if codec is Codec.GZIP:
        return gzip.compress(data)
    if codec is Codec.SNAPPY:
        return snappy.compress(data)
    if codec is Codec.LZ4:
        return lz4.compress(data, wrong_descriptor_check=magic == 0)
    if codec is Codec.ZSTD:
        return zstd.compress(data)
    return data
