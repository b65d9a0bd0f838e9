"""The partition of a key or an id: the hash functions of clients and of brokers (facts §1.16)."""

from collections.abc import Callable
from enum import StrEnum
from struct import iter_unpack
from zlib import crc32

_MASK = 0xFFFF_FFFF
_SEED = 0x9747_B28C
_M = 0x5BD1_E995
_R = 24


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 of the Java client's partitioner, signed as Java shows it."""
    h = (_SEED ^ len(data)) & _MASK
    tail = len(data) & ~3
    for (word,) in iter_unpack("<I", data[:tail]):
        k = (word * _M) & _MASK
        k = ((k ^ (k >> _R)) * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    if data[tail:]:
        h = ((h ^ int.from_bytes(data[tail:], "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return _signed(h ^ (h >> 15))


def partition_for_key(key: bytes, partitions: int) -> int:
    """The partition that the default partitioner chooses for `key`."""
    return positive_murmur2(key) % partitions


def java_string_hash(text: str) -> int:
    """`String.hashCode` of Java: over UTF-16 code units, so a character outside the BMP counts as two."""
    h = 0
    for (unit,) in iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        h = (31 * h + unit) & _MASK
    return _signed(h)


def coordinator_partition(identifier: str, partitions: int) -> int:
    """The partition of `__transaction_state` or `__consumer_offsets` that owns a transactional or group id.

    Kafka reads -2^31, which has no positive counterpart, as 0.
    """
    h = java_string_hash(identifier)
    return 0 if h == -(2**31) else abs(h) % partitions


def _signed(h: int) -> int:
    return h - 2**32 if h >= 2**31 else h


class Partitioner(StrEnum):
    """How a client chooses the partition of a record with a key, by the names that librdkafka gives them.

    `murmur2` is the Java client's default, and that of most others; librdkafka's `murmur2_random` differs in
    records without a key only. `consistent` is CRC-32, with `consistent_random` as librdkafka's default;
    `fnv1a` is Sarama's. `none`: any other, such as that of Kafka Streams for windowed keys.
    """

    MURMUR2 = "murmur2"
    CONSISTENT = "consistent"
    FNV1A = "fnv1a"
    NONE = "none"


def positive_murmur2(key: bytes) -> int:
    """Without its sign bit, as in the Java client."""
    return murmur2(key) & 0x7FFF_FFFF


def fnv1a(key: bytes) -> int:
    """The 32-bit FNV-1a, its absolute value as a signed number, as in Sarama and librdkafka."""
    h = 0x811C_9DC5
    for byte in key:
        h = ((h ^ byte) * 0x0100_0193) & _MASK
    return abs(_signed(h))


KEY_HASHES: dict[Partitioner, Callable[[bytes], int]] = {
    Partitioner.MURMUR2: positive_murmur2,
    Partitioner.CONSISTENT: crc32,
    Partitioner.FNV1A: fnv1a,
}
"""The hash of each; the partition is its remainder by the number of partitions."""
