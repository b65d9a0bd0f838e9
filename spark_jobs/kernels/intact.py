"""Whether batches still are where their rows say: format, size and checksum as noted, and right."""

from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.columns import HeaderColumns
from spark_jobs.kernels.compile import kernel
from spark_jobs.kernels.crc import library_address
from spark_jobs.kernels.entry import SMALLEST_ENTRY, has_right_crc
from spark_jobs.kernels.memory import Bytes, as_bytes, load_int8, load_int32, load_uint32
from spark_jobs.protocol.record_batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2


@kernel
def _check(
    buffer: Bytes,
    library: int,
    position: npt.NDArray[np.int64],
    size: npt.NDArray[np.int64],
    magic: npt.NDArray[np.int8],
    crc: npt.NDArray[np.uint32],
    intact: npt.NDArray[np.bool_],
) -> None:
    for row in range(position.size):
        at, length = position[row], size[row]
        intact[row] = False
        if at < 0 or length < SMALLEST_ENTRY or at + length > buffer.size:
            continue
        is_batch = magic[row] >= MAGIC_V2
        if load_int32(buffer, at + 8) + LOG_OVERHEAD != length or load_int8(buffer, at + 16) != magic[row]:
            continue
        if is_batch and length < HEADER_SIZE:
            continue
        written = load_uint32(buffer, at + 17) if is_batch else load_uint32(buffer, at + 12)
        intact[row] = written == crc[row] and has_right_crc(library, buffer, at, length)


def find_intact(buffer: Any, headers: HeaderColumns) -> npt.NDArray[np.bool_]:
    """One flag per row of `headers`, whose positions count in `buffer`."""
    intact = np.empty(headers.rows, dtype=np.bool_)
    _check(
        as_bytes(buffer),
        library_address(),
        headers.position,
        headers.size,
        headers.magic,
        headers.crc,
        intact,
    )
    return intact
