"""CRC-32C in kernels at the speed of the library, CRC-32 for legacy messages, CRC-64/NVME for objects of S3.

The library's C function is found at run time and its address passed to kernels as an argument, so no address
of this process gets into cached machine code. Without the library, tables compute the checksum.
"""

import ctypes
from functools import cache
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import Bytes, as_bytes, call_checksum, load_int64, load_uint8, prefetch

NO_LIBRARY = 0
"""The address that means: use the table."""

_STEP, _AHEAD, _LINE = 1 << 10, 1 << 11, 1 << 6
"""Bytes at a time, and how far ahead memory is prefetched: it is slower than the checksum.

Memory after the data may be prefetched, too; that is a hint, and never a fault.
"""

_LIBRARY_MODULE = "google_crc32c._crc32c"
REFLECTED_POLYNOMIAL = 0x9A6C9329AC4BC9B5
ALL_ONES = 0xFFFFFFFFFFFFFFFF

Words = npt.NDArray[np.uint64]


@cache
def library_address() -> int:
    """Address of `crc32c_extend` in the library of google_crc32c, or `NO_LIBRARY`."""
    module = find_spec(_LIBRARY_MODULE)
    if module is None or module.origin is None:
        return NO_LIBRARY
    # The extension module only links the library; the loader also searches linked libraries.
    extend = getattr(ctypes.CDLL(module.origin), "crc32c_extend", None)
    return NO_LIBRARY if extend is None else ctypes.cast(extend, ctypes.c_void_p).value or NO_LIBRARY


def _tables(reflected_polynomial: int) -> npt.NDArray[np.int64]:
    """Eight tables of 256 entries: row k advances one byte's share of a checksum by k further bytes."""
    row = np.arange(256, dtype=np.int64)
    for _ in range(8):
        row = np.where(row & 1, row >> 1 ^ reflected_polynomial, row >> 1)
    rows = [row]
    while len(rows) < 8:
        rows.append(rows[-1] >> 8 ^ row[rows[-1] & 0xFF])
    return np.stack(rows)


CASTAGNOLI = _tables(0x82F63B78)
IEEE = _tables(0xEDB88320)


@helper
def table_checksum(tables: npt.NDArray[np.int64], data: Bytes, start: int, length: int) -> int:
    """The checksum of `length` bytes from `start`, eight at a time."""
    crc = 0xFFFFFFFF
    position, end = start, start + length
    while position + 8 <= end:
        word = load_int64(data, position)
        crc = int(
            tables[7, (crc ^ word >> 56) & 0xFF]
            ^ tables[6, (crc >> 8 ^ word >> 48) & 0xFF]
            ^ tables[5, (crc >> 16 ^ word >> 40) & 0xFF]
            ^ tables[4, (crc >> 24 ^ word >> 32) & 0xFF]
            ^ tables[3, word >> 24 & 0xFF]
            ^ tables[2, word >> 16 & 0xFF]
            ^ tables[1, word >> 8 & 0xFF]
            ^ tables[0, word & 0xFF]
        )
        position += 8
    while position < end:
        crc = int(tables[0, crc & 0xFF ^ load_uint8(data, position)] ^ crc >> 8)
        position += 1
    return crc ^ 0xFFFFFFFF


@helper
def crc32c(library: int, data: Bytes, start: int, length: int) -> int:
    """CRC-32C, by the library at address `library` if there is one."""
    if library == NO_LIBRARY:
        return table_checksum(CASTAGNOLI, data, start, length)
    crc, position, end = 0, start, start + length
    while end - position > _STEP:
        for line in range(position + _AHEAD, position + _AHEAD + _STEP, _LINE):
            prefetch(data, line)
        crc = call_checksum(library, crc, data, position, _STEP)
        position += _STEP
    return call_checksum(library, crc, data, position, end - position)


@helper
def crc32(data: Bytes, start: int, length: int) -> int:
    """CRC-32 as zlib computes it: the checksum of messages of magic 0 and 1 (facts §1.6)."""
    return table_checksum(IEEE, data, start, length)


@kernel
def _crc32c(library: int, data: Bytes) -> int:
    return crc32c(library, data, 0, data.size)


@kernel
def _crc32(data: Bytes) -> int:
    return crc32(data, 0, data.size)


def checksum_castagnoli(buffer: bytes | memoryview, *, library: int | None = None) -> int:
    """CRC-32C of `buffer` through the compiled code."""
    return int(_crc32c(library_address() if library is None else library, as_bytes(buffer)))


def checksum_ieee(buffer: bytes | memoryview) -> int:
    """CRC-32 of `buffer` through the compiled code."""
    return int(_crc32(as_bytes(buffer)))


def _tables64() -> Words:
    """Eight tables of 256 entries: row k advances one byte's share of a checksum by k further bytes."""
    row = np.arange(256, dtype=np.uint64)
    one, eight = np.uint64(1), np.uint64(8)
    for _ in range(8):
        row = np.where(row & one, row >> one ^ np.uint64(REFLECTED_POLYNOMIAL), row >> one)
    rows = [row]
    while len(rows) < 8:
        rows.append(rows[-1] >> eight ^ row[rows[-1] & np.uint64(0xFF)])
    return np.stack(rows)


TABLES = _tables64()


@kernel
def _extend(tables: Words, state: Words, data: npt.NDArray[np.uint8]) -> None:
    """Advances the checksum in `state` by `data`, eight bytes at a time."""
    crc = state[0]
    whole = len(data) // 8 * 8
    for start in range(0, whole, 8):
        word = np.uint64(0)
        for place in range(8):
            word |= np.uint64(data[start + place]) << np.uint64(8 * place)
        word ^= crc
        crc = np.uint64(0)
        for place in range(8):
            crc ^= tables[7 - place, (word >> np.uint64(8 * place)) & np.uint64(0xFF)]
    for position in range(whole, len(data)):
        crc = (crc >> np.uint64(8)) ^ tables[0, (crc ^ np.uint64(data[position])) & np.uint64(0xFF)]
    state[0] = crc


class Crc64Nvme:
    """The checksum of bytes in pieces, with the interface of `hashlib`."""

    def __init__(self, crc: int = ALL_ONES) -> None:
        self._state = np.array([crc], dtype=np.uint64)

    def update(self, data: bytes) -> None:
        _extend(TABLES, self._state, np.frombuffer(data, dtype=np.uint8))

    def copy(self) -> "Crc64Nvme":
        return Crc64Nvme(int(self._state[0]))

    def hexdigest(self) -> str:
        return f"{int(self._state[0]) ^ ALL_ONES:016x}"
