"""CRC-64/NVME, the checksum that S3 stores for whole objects, to verify bytes that were read."""

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import kernel

REFLECTED_POLYNOMIAL = 0x9A6C9329AC4BC9B5
ALL_ONES = 0xFFFFFFFFFFFFFFFF

Words = npt.NDArray[np.uint64]


def _tables() -> Words:
    """Eight tables of 256 entries: row k advances one byte's share of a checksum by k further bytes."""
    row = np.arange(256, dtype=np.uint64)
    one, eight = np.uint64(1), np.uint64(8)
    for _ in range(8):
        row = np.where(row & one, row >> one ^ np.uint64(REFLECTED_POLYNOMIAL), row >> one)
    rows = [row]
    while len(rows) < 8:
        rows.append(rows[-1] >> eight ^ row[rows[-1] & np.uint64(0xFF)])
    return np.stack(rows)


TABLES = _tables()


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
