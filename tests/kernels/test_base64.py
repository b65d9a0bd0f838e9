"""Base64 as the standard library writes it, at any position; nothing after the output is overwritten."""

from base64 import b64encode

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.kernels.base64 import SPILL, write_base64
from spark_jobs.kernels.compile import from_python

EVERY_SEXTET = bytes(range(256)) * 3
UNTOUCHED = 0xEE
write = from_python(write_base64)


def written(data: bytes, start: int, size: int) -> bytes:
    """What is written, with room for no more than the kernel asks for."""
    expected = (size + 2) // 3 * 4
    out = np.full(5 + expected + SPILL + 9, UNTOUCHED, dtype=np.uint8)
    end = write(out, 5, np.frombuffer(data, dtype=np.uint8), start, size)
    assert set(out[:5]) == set(out[-9:]) == {UNTOUCHED}
    return out[5:end].tobytes()


@pytest.mark.parametrize("behind", [0, 1, 3, 4, 15, 40])
def test_any_size_at_any_distance_from_the_end(behind: int) -> None:
    for size in range(60):
        data = EVERY_SEXTET[: 3 + size + behind]
        assert written(data, 3, size) == b64encode(data[3 : 3 + size])


def test_all_characters() -> None:
    assert written(EVERY_SEXTET, 0, len(EVERY_SEXTET)) == b64encode(EVERY_SEXTET)


@given(st.binary(max_size=200), st.binary(max_size=20))
def test_any_bytes(data: bytes, behind: bytes) -> None:
    assert written(data + behind, 0, len(data)) == b64encode(data)
