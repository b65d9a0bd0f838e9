"""Text cells equal those of the plain writers: numbers and times at their limits, one odd byte in a text."""

from base64 import b64encode
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.inspect.record_lines import iso_timestamp, preview
from spark_jobs.kernels import cells, record_lines
from spark_jobs.kernels.cells import SPILL, write_base64
from spark_jobs.kernels.compile import kernel


def from_python(of_kernels: Any) -> Any:
    """A helper as a kernel of its own."""
    return kernel(of_kernels.py_func)


number_size = from_python(cells.number_size)
write_iso = from_python(cells.write_iso)
write_number = from_python(cells.write_number)
write_preview = from_python(record_lines.write_preview)

DAY = 86_400_000
TIMES = [
    *range(0, 1100, 7),
    *(day * DAY + extra for day in range(-1, 800) for extra in (-1, 0)),
    *(year * 365 * DAY + 12_345_678 for year in range(0, 8030, 11)),
    253_402_300_799_999,
    253_402_300_800_000,
]
NUMBERS = [sign * (10**power + extra) for power in range(19) for extra in (-1, 0, 1) for sign in (1, -1)] + [
    2**63 - 1,
    -(2**63),
    1 - 2**63,
]


def test_times() -> None:
    out = np.zeros(40, dtype=np.uint8)
    assert [out[: write_iso(out, 0, time)].tobytes().decode() for time in TIMES] == [
        *map(iso_timestamp, TIMES)
    ]


def test_numbers_and_their_sizes() -> None:
    out = np.zeros(40, dtype=np.uint8)
    found = [out[: write_number(out, 0, number)].tobytes().decode() for number in NUMBERS]
    assert found == [*map(str, NUMBERS)]
    assert [number_size(number) for number in NUMBERS] == [*map(len, found)]


@pytest.mark.parametrize("place", range(17))
@pytest.mark.parametrize("limit", [7, 8, 16, 40])
def test_a_preview_with_any_byte_among_plain_ones(place: int, limit: int) -> None:
    out = np.zeros(200, dtype=np.uint8)
    for byte in range(256):
        data = b" 0AZaz~_" * 2 + b"!"
        data = data[:place] + bytes([byte]) + data[place:]
        end, used = write_preview(out, 0, np.frombuffer(data, dtype=np.uint8), 0, len(data), limit, False)
        assert out[:end].tobytes().decode() == preview(data, limit)
        assert used == len(preview(data, limit))


EVERY_SEXTET = bytes(range(256)) * 3
UNTOUCHED = 0xEE
write_64 = from_python(write_base64)


def written_as_base64(data: bytes, start: int, size: int) -> bytes:
    """What the kernel writes as base64, into no more bytes than it asks for."""
    expected = (size + 2) // 3 * 4
    out = np.full(5 + expected + SPILL + 9, UNTOUCHED, dtype=np.uint8)
    end = write_64(out, 5, np.frombuffer(data, dtype=np.uint8), start, size)
    assert set(out[:5]) == set(out[-9:]) == {UNTOUCHED}
    return out[5:end].tobytes()


@pytest.mark.parametrize("behind", [0, 1, 3, 4, 15, 40])
def test_base64_of_any_size_at_any_distance_from_the_end(behind: int) -> None:
    for size in range(60):
        data = EVERY_SEXTET[: 3 + size + behind]
        assert written_as_base64(data, 3, size) == b64encode(data[3 : 3 + size])


def test_all_characters_of_base64() -> None:
    assert written_as_base64(EVERY_SEXTET, 0, len(EVERY_SEXTET)) == b64encode(EVERY_SEXTET)


@given(st.binary(max_size=200), st.binary(max_size=20))
def test_any_bytes_as_base64(data: bytes, behind: bytes) -> None:
    assert written_as_base64(data + behind, 0, len(data)) == b64encode(data)
