"""Accepted batches as bytes: copied from staged objects, given their offset and leader epoch.

Neither is covered by the checksum (facts §1.3), so everything else stays as the producer sent it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.admitting.capture_chunks import CaptureObjects
from spark_jobs.admitting.judging import Judged
from spark_jobs.protocol.control_record import ControlType, write_marker
from spark_jobs.storage.index_rows import values
from spark_jobs.storage.manifest import ManifestEntry
from spark_jobs.storage.staged import StagedObjects
from spark_jobs.tables.batches import MARKER_OBJECT

WINDOW_BYTES = 8 * 2**20
NEAR_BYTES = 2**16
"""Refused bytes between accepted ones that are read along rather than skipped with another request."""

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCopier:
    """Reads accepted batches, at most a window of an object at a time, and stamps them."""

    objects: CaptureObjects
    staged: StagedObjects
    leader_epoch: int

    def copy(self, judged: Judged) -> Iterator[bytes | memoryview]:
        """The accepted batches of `judged` in its order, some at a time."""
        accepted = judged.rows.filter(pa.array(judged.is_accepted))
        offsets = judged.decisions.base_offset[judged.is_accepted]
        is_marker = values(accepted, "object_order") == MARKER_OBJECT
        places = np.where(is_marker, -1, self.objects.places(accepted))
        positions, sizes = values(accepted, "position"), values(accepted, "size")
        for start, stop in _stretches(places, positions, sizes):
            if is_marker[start]:
                yield self._markers(accepted.slice(start, stop - start), offsets[start:stop])
            else:
                entry = self.objects.entries[places[start]]
                for window in _windows(positions[start:stop], sizes[start:stop]):
                    part = slice(start + window.start, start + window.stop)
                    yield from self._window(entry, positions[part], sizes[part], offsets[part])

    def _window(
        self, entry: ManifestEntry, positions: Int64s, sizes: Int64s, offsets: Int64s
    ) -> Iterator[memoryview]:
        start, end = int(positions[0]), int(positions[-1] + sizes[-1])
        data = np.frombuffer(bytearray(self.staged.read_range(entry, start, end - start)), dtype=np.uint8)
        at = (positions - start)[:, np.newaxis]
        data[at + np.arange(8)] = offsets.astype(">i8").view(np.uint8).reshape(-1, 8)
        data[at + np.arange(12, 16)] = np.frombuffer(
            self.leader_epoch.to_bytes(4, signed=True), dtype=np.uint8
        )
        for first, last in _runs(positions - start, sizes):
            yield data[first:last].data

    def _markers(self, rows: pa.RecordBatch, offsets: Int64s) -> bytes:
        names = ("producer_id", "producer_epoch", "control_type", "coordinator_epoch", "max_timestamp")
        columns = [values(rows, name).tolist() for name in names]
        return b"".join(
            write_marker(
                base_offset=offset,
                partition_leader_epoch=self.leader_epoch,
                timestamp=timestamp,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                control_type=ControlType(control_type),
                coordinator_epoch=coordinator_epoch,
            )
            for offset, producer_id, producer_epoch, control_type, coordinator_epoch, timestamp in zip(
                offsets.tolist(), *columns, strict=True
            )
        )


def _stretches(places: Int64s, positions: Int64s, sizes: Int64s) -> Iterator[tuple[int, int]]:
    """Rows of one object that lie behind each other, with little between them."""
    if not len(places):
        return
    between = positions[1:] - (positions[:-1] + sizes[:-1])
    breaks = (places[1:] != places[:-1]) | (between < 0) | (between > NEAR_BYTES)
    # Markers without an object count their positions downwards; they are one stretch all the same.
    breaks &= ~((places[1:] < 0) & (places[:-1] < 0))
    yield from pairwise([0, *(np.flatnonzero(breaks) + 1).tolist(), len(places)])


def _windows(positions: Int64s, sizes: Int64s) -> Iterator[slice]:
    """Rows of a stretch that fit into a window, at least one at a time."""
    ends, start = positions + sizes, 0
    while start < len(positions):
        stop = int(np.searchsorted(ends, positions[start] + WINDOW_BYTES, side="right"))
        yield slice(start, max(stop, start + 1))
        start = max(stop, start + 1)


def _runs(positions: Int64s, sizes: Int64s) -> Iterator[tuple[int, int]]:
    """(start, end) of bytes that belong to batches without a break."""
    ends = positions + sizes
    breaks = np.flatnonzero(positions[1:] != ends[:-1])
    firsts, lasts = np.concatenate(([0], breaks + 1)), np.concatenate((breaks, [len(positions) - 1]))
    yield from zip(positions[firsts].tolist(), ends[lasts].tolist(), strict=True)
