"""Text cells equal those of the plain writers: numbers and times at their limits, one odd byte in a text."""

import numpy as np
import pytest

from spark_jobs.inspect.record_lines import iso_timestamp, preview
from spark_jobs.kernels import cells
from spark_jobs.kernels import preview as previews
from spark_jobs.kernels.compile import from_python

number_size = from_python(cells.number_size)
write_iso = from_python(cells.write_iso)
write_number = from_python(cells.write_number)
write_preview = from_python(previews.write_preview)

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
