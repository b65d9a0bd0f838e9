"""What names a segment of the accepted log: its batches, by all that their own checksums do not prove.

A checksum proves a batch from its attributes on. Where the batch stands, how long it is, and the checksum
itself are what is left (facts §1.3), and the leader epoch, which is the same for a whole segment.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.headers import scan_chunk
from spark_jobs.kernels.stop import ScanStop, StopReason

BATCHES_AT_A_TIME = 1 << 16
_ROW = np.dtype([("base_offset", ">i8"), ("size", ">i8"), ("crc", ">u4")])

Numbers = npt.NDArray[Any]


class SegmentDigest:
    """The digest of a segment while it grows: known from headers, before any of its bytes is written."""

    def __init__(self) -> None:
        self._sha256 = hashlib.sha256()

    def add(self, *, base_offset: Numbers, size: Numbers, crc: Numbers) -> None:
        """The next batches."""
        rows = np.empty(base_offset.size, dtype=_ROW)
        rows["base_offset"], rows["size"], rows["crc"] = base_offset, size, crc
        self._sha256.update(rows.tobytes())

    def under(self, leader_epoch: int) -> str:
        """Hexadecimal, for the segment as the leader of that epoch writes it."""
        whole = self._sha256.copy()
        whole.update(leader_epoch.to_bytes(4, signed=True))
        return whole.hexdigest()


def segment_digest(path: Path) -> str:
    """The digest of a segment's file; empty unless all of it is batches of one leader, none damaged."""
    data = np.memmap(path, dtype=np.uint8, mode="r")
    digest, epochs = SegmentDigest(), set[int]()
    stop = ScanStop(position=0, reason=StopReason.FULL)
    while stop.reason is StopReason.FULL:
        scan = scan_chunk(data, start=stop.position, capacity=BATCHES_AT_A_TIME)
        found, stop = scan.columns, scan.stop
        digest.add(base_offset=found.base_offset, size=found.size, crc=found.crc)
        epochs.update(np.unique(found.partition_leader_epoch).tolist())
    is_whole = stop.reason is StopReason.END and len(epochs) == 1
    return digest.under(epochs.pop()) if is_whole else ""


def content_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
