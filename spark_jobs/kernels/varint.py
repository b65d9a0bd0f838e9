"""Zigzag varints inside kernels (facts §1.12): the twin of `protocol.primitives.Reader`."""

from spark_jobs.kernels.compile import helper
from spark_jobs.kernels.memory import Bytes, load_uint8

NO_VARINT = -1
"""The next position when the bytes end, or the longest form does, before the number does."""


@helper
def read_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """(signed 32-bit number, position after it), at most 5 bytes."""
    raw = 0
    for index in range(min(5, end - position)):
        byte = load_uint8(data, position + index)
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            raw &= 0xFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), position + index + 1
    return 0, NO_VARINT


@helper
def read_varlong(data: Bytes, position: int, end: int) -> tuple[int, int]:
    """(signed 64-bit number, position after it), at most 10 bytes."""
    raw = 0
    for index in range(min(10, end - position)):
        byte = load_uint8(data, position + index)
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            # A signed shift would copy the top bit.
            return ((raw >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(raw & 1), position + index + 1
    return 0, NO_VARINT
