"""CRC-32C inside kernels at the speed of the library behind `protocol.crc`, and CRC-32 for legacy messages.

The library's C function is found at run time and its address handed to kernels as an argument, so nothing of
this process is frozen into cached machine code. Where it cannot be found, a table walk stands in for it.
"""

import ctypes
from functools import cache
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.memory import Bytes, as_bytes, call_checksum

NO_LIBRARY = 0
"""The address that means: use the table."""

_LIBRARY_MODULE = "google_crc32c._crc32c"


@cache
def library_address() -> int:
    """Address of `crc32c_extend` in the library that google_crc32c brings along, or `NO_LIBRARY`."""
    module = find_spec(_LIBRARY_MODULE)
    if module is None or module.origin is None:
        return NO_LIBRARY
    # The extension module only links the library; the loader looks a name up in what a module links, too.
    extend = getattr(ctypes.CDLL(module.origin), "crc32c_extend", None)
    return NO_LIBRARY if extend is None else ctypes.cast(extend, ctypes.c_void_p).value or NO_LIBRARY


def _tables(reflected_polynomial: int) -> npt.NDArray[np.uint32]:
    """Eight tables of 256: row k advances one byte's share of a checksum by k further bytes."""
    row = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        row = np.where(row & 1, row >> 1 ^ np.uint32(reflected_polynomial), row >> 1)
    rows = [row]
    while len(rows) < 8:
        rows.append(rows[-1] >> 8 ^ row[rows[-1] & 0xFF])
    return np.stack(rows).astype(np.uint32)


CASTAGNOLI = _tables(0x82F63B78)
IEEE = _tables(0xEDB88320)


@helper
def table_checksum(tables: npt.NDArray[np.uint32], data: Bytes, start: int, length: int) -> int:
    """The checksum of `length` bytes from `start`, eight at a time."""
    crc = np.uint32(0xFFFFFFFF)
    position, end = start, start + length
    while position + 8 <= end:
        crc = (
            tables[7, crc & 0xFF ^ data[position]]
            ^ tables[6, crc >> 8 & 0xFF ^ data[position + 1]]
            ^ tables[5, crc >> 16 & 0xFF ^ data[position + 2]]
            ^ tables[4, crc >> 24 ^ data[position + 3]]
            ^ tables[3, data[position + 4]]
            ^ tables[2, data[position + 5]]
            ^ tables[1, data[position + 6]]
            ^ tables[0, data[position + 7]]
        )
        position += 8
    while position < end:
        crc = np.uint32(tables[0, crc & 0xFF ^ data[position]] ^ crc >> 8)
        position += 1
    return int(crc ^ np.uint32(0xFFFFFFFF))


@helper
def crc32c(library: int, data: Bytes, start: int, length: int) -> int:
    """CRC-32C, by the library at address `library` if there is one."""
    if library != NO_LIBRARY:
        return call_checksum(library, data, start, length)
    return table_checksum(CASTAGNOLI, data, start, length)


@helper
def crc32(data: Bytes, start: int, length: int) -> int:
    """CRC-32 as zlib computes it: what messages of magic 0 and 1 carry (facts §1.6)."""
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
