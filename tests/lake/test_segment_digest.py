"""A segment is named by its headers: known before it is written, and proved by reading it."""

from pathlib import Path

import numpy as np
import pytest

from spark_jobs.kernels.scan import scan_headers
from spark_jobs.lake.accepted_log import SegmentDigest, segment_digest
from tests.pipeline.batches import batch, marker

LEADER = 3
SEGMENT = b"".join(
    (
        batch(0, at=10, count=2, leader_epoch=LEADER),
        batch(2, at=12, leader_epoch=LEADER),
        marker(at=13, leader_epoch=LEADER),
    )
)


def planned(data: bytes = SEGMENT) -> SegmentDigest:
    digest, headers = SegmentDigest(), scan_headers(data).columns
    for row in range(headers.rows):
        each = slice(row, row + 1)
        digest.add(base_offset=headers.base_offset[each], size=headers.size[each], crc=headers.crc[each])
    return digest


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return segment_digest(path)


def test_the_file_has_the_digest_that_its_headers_promise(tmp_path: Path) -> None:
    assert written(tmp_path / "log", SEGMENT) == planned().under(LEADER)


def test_every_changed_bit_changes_it(tmp_path: Path) -> None:
    bits = np.unpackbits(np.frombuffer(SEGMENT, dtype=np.uint8))
    for place in range(bits.size):
        bits[place] ^= 1
        assert written(tmp_path / "log", np.packbits(bits).tobytes()) != planned().under(LEADER), place
        bits[place] ^= 1


@pytest.mark.parametrize("data", [SEGMENT[:-1], SEGMENT + b"\0", SEGMENT + SEGMENT, SEGMENT[: len(batch())]])
def test_a_file_that_is_shorter_or_longer_has_another(tmp_path: Path, data: bytes) -> None:
    assert written(tmp_path / "log", data) != planned().under(LEADER)


def test_another_leader_has_another_digest_for_the_same_batches() -> None:
    assert planned().under(LEADER) != planned().under(LEADER + 1)
    assert planned().under(LEADER) == planned().under(LEADER)
