"""A batch is intact if its position has the size, the checksum and the bytes of its row."""

import numpy as np
import pytest

from spark_jobs.kernels.scan import find_intact, scan_headers
from tests.cases.golden import COMMIT_MARKER, TRANSACTIONAL_BATCH

DATA = TRANSACTIONAL_BATCH + COMMIT_MARKER
HEADERS = scan_headers(DATA).columns


def test_unchanged_batches_are_intact() -> None:
    assert find_intact(DATA, HEADERS).tolist() == [True, True]


@pytest.mark.parametrize("byte", [8, 11, 16, 17, 22, 60, len(TRANSACTIONAL_BATCH) - 1])
def test_a_changed_byte_of_length_magic_checksum_or_payload_is_noticed(byte: int) -> None:
    changed = bytearray(DATA)
    changed[byte] ^= 1
    assert find_intact(bytes(changed), HEADERS).tolist() == [False, True]


def test_another_valid_batch_in_its_place_is_noticed() -> None:
    other = HEADERS._replace(crc=HEADERS.crc ^ np.uint32(1))
    assert find_intact(DATA, other).tolist() == [False, False]


def test_a_batch_beyond_the_end_of_the_bytes_is_not_intact() -> None:
    assert find_intact(DATA[:-1], HEADERS).tolist() == [True, False]
    assert find_intact(b"", HEADERS).tolist() == [False, False]
