"""Plans the accepted log of a captured partition: segments, snapshots, aborted transactions, leader epochs.

A run starts a new segment at the partition's log end offset, and rolls as a broker does: before a batch that
does not fit, also if that batch is rejected (facts §2.3). Segments are planned here, from headers;
`materialise`, which reads their batches, writes them.
"""

import hashlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.checkpoints import EpochEntry, LeaderEpochs, write_leader_epochs
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.indexes import AbortedTxn, write_txn_index
from spark_jobs.kafka.formats.log_files import LEADER_EPOCH_CHECKPOINT, LogFileKind, segment_file_name
from spark_jobs.kafka.log.log_segment import MAX_RELATIVE_OFFSET
from spark_jobs.kernels.partition_transactions import TransactionTable
from spark_jobs.kernels.producers import Rows, write_canonical_snapshot
from spark_jobs.lake.accepted_log import PlannedSegment, SegmentDigest, Segments
from spark_jobs.lake.index_rows import values
from spark_jobs.lake.manifest import Truncation
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.lake.states import PartitionState
from spark_jobs.pipeline.captures.chunk import OPEN, Chunk, Judged, PartitionMemory

# Aborted transactions: entries of `.txnindex` (facts §1.9).

_ABORT = int(ControlType.ABORT)


def aborted_transactions(closed: Rows, transactions: TransactionTable) -> Iterator[AbortedTxn]:
    """An entry for each of `closed` that had data and was aborted, in the order of their markers.

    `transactions` is the state after the chunk: what was open at a marker is still open, or in `closed`.
    """
    with_data = closed[closed["batches"] > 0]
    if not (with_data["marker_type"] == _ABORT).any():
        return
    still_open = transactions.open_transactions()["first_offset"]
    opened = np.sort(np.concatenate((with_data["first_offset"], still_open))).tolist()
    ended: set[int] = set()
    oldest = 0
    for txn in with_data:
        first, marker = int(txn["first_offset"]), int(txn["marker_offset"])
        ended.add(first)
        while oldest < len(opened) and opened[oldest] in ended:
            oldest += 1
        if txn["marker_type"] == _ABORT:
            is_first = oldest == len(opened) or opened[oldest] > marker
            yield AbortedTxn(
                producer_id=int(txn["producer_id"]),
                first_offset=first,
                last_offset=marker,
                last_stable_offset=marker + 1 if is_first else opened[oldest],
            )


# Leader epochs (facts §1.11).


class Lineage:
    """The leader epochs of one captured partition while a run writes its segments."""

    def __init__(self, state: PartitionState, truncation: Truncation | None) -> None:
        self._epochs = LeaderEpochs(entries=state.leader_epochs)
        is_due = truncation is not None and truncation.leader_epoch > state.leader_epoch
        self._old = truncation if is_due else None
        self._segments = dict(truncation.segments) if truncation is not None and is_due else {}

    def epoch_at(self, base_offset: int) -> int:
        """The epoch of the segment at `base_offset` before it is assigned."""
        old = self._old.epochs if self._old is not None else ()
        known = [epoch for epoch, start_offset in old if start_offset <= base_offset]
        return max([self._latest, *known[-1:]])

    def assign(self, base_offset: int, digest: str) -> int:
        """The epoch that the finished segment has to have: its own, or the new one if the old log ends."""
        if self._old is None:
            return self._latest
        if self._segments.pop(base_offset, None) == digest:
            self._epochs = self._epochs.assign(self.epoch_at(base_offset), base_offset)
        else:
            self._cut_off(self._old, base_offset)
        return self._latest

    def finish(self, end_offset: int) -> tuple[EpochEntry, ...]:
        """The run's leader epochs; a log that ends before the old one did is truncated there."""
        if self._old is not None and self._segments:
            self._cut_off(self._old, end_offset)
        return self._epochs.entries

    @property
    def _latest(self) -> int:
        return max(self._epochs.latest_epoch, 0)

    def _cut_off(self, old: Truncation, offset: int) -> None:
        self._epochs, self._old = self._epochs.assign(old.leader_epoch, offset), None


NO_SNAPSHOT = b""
"""A log that begins at 0 needs none, nor does a segment that begins with batches that were parked."""


class _Segment:
    """One segment while batches are added."""

    def __init__(self, base_offset: int, first_row: int) -> None:
        self.base_offset, self.size, self.digest = base_offset, 0, SegmentDigest()
        self._first_row = self._stop_row = first_row

    def add(self, judged: Judged, accepted: npt.NDArray[np.int64], stop_row: int) -> None:
        """The batches at the places `accepted`; the last of them is the row before `stop_row`."""
        base_offset, size, crc = (
            column[accepted]
            for column in (
                judged.decisions.base_offset,
                values(judged.rows, "size"),
                values(judged.rows, "crc"),
            )
        )
        self.digest.add(base_offset=base_offset, size=size, crc=crc)
        self.size += int(size.sum())
        self._stop_row = stop_row

    def finish(self, leader_epoch: int) -> PlannedSegment:
        return PlannedSegment(
            base_offset=self.base_offset,
            leader_epoch=leader_epoch,
            size=self.size,
            digest=self.digest.under(leader_epoch),
            first_row=self._first_row,
            stop_row=self._stop_row,
        )


class AcceptedLog:
    """One partition in a run; nothing is written if no batch is accepted."""

    def __init__(
        self,
        lake: ObjectStore,
        folder: str,
        directory: str,
        *,
        memory: PartitionMemory,
        lineage: Lineage,
        segment_bytes: int,
    ) -> None:
        """`directory` is the partition's, below the key `folder`."""
        self._lake, self._folder, self._directory = lake, folder, directory
        self._memory, self._segment_bytes, self._lineage = memory, segment_bytes, lineage
        self._segment: _Segment | None = None
        self._segments: list[PlannedSegment] = []
        self._aborted: list[AbortedTxn] = []
        self._outputs: list[OutputFile] = []
        self._roll()

    def fitting(self, chunk: Chunk) -> Iterator[Chunk]:
        """`chunk` in parts that fit into one segment each; between them the log has rolled.

        The caller judges and appends each part before it asks for the next.
        """
        start, rows = 0, chunk.rows.num_rows
        sizes = np.where(chunk.preset == OPEN, values(chunk.rows, "size"), 0)
        offsets = np.where(
            chunk.preset == OPEN, values(chunk.rows, "last_offset_delta").astype(np.int64) + 1, 0
        )
        while start < rows:
            count = self._room(sizes[start:], offsets[start:])
            if not count:
                self._roll()
                continue
            yield Chunk(
                rows=chunk.rows.slice(start, count),
                copy=chunk.copy[start : start + count],
                preset=chunk.preset[start : start + count],
            )
            start += count

    def append(self, judged: Judged, closed: Rows, *, first_row: int) -> None:
        """The accepted batches of a part, and the transactions that it closed.

        The part begins at row `first_row` of the partition's verdicts.
        """
        aborted = list(aborted_transactions(closed, self._memory.transactions))
        for start, piece in self._pieces(judged):
            self._add(piece, first_row + start)
            end_offset = int(piece.decisions.last_offset[piece.is_accepted].max(initial=-1)) + 1
            self._aborted += [entry for entry in aborted if entry.last_offset < end_offset]
            aborted = [entry for entry in aborted if entry.last_offset >= end_offset]

    def _add(self, piece: Judged, first_row: int) -> None:
        places = np.flatnonzero(piece.is_accepted)
        if places.size:
            if self._segment is None:
                self._segment = self._begin(first_row + int(places[0]))
            self._segment.add(piece, places, first_row + int(places[-1]) + 1)

    def _pieces(self, judged: Judged) -> Iterator[tuple[int, Judged]]:
        """`judged` in parts, each with its first row; one, unless parked batches do not fit.

        Then segments begin in between without a snapshot; a broker finds the state from the one before.
        """
        start, sizes = 0, np.where(judged.is_accepted, values(judged.rows, "size"), 0)
        while start < judged.size:
            room = self._segment_bytes - (self._segment.size if self._segment else 0)
            count = int(np.searchsorted(np.cumsum(sizes[start:]), room, side="right"))
            if not count and self._segment is not None:
                self._end_segment()
                self._base_offset, self._snapshot = self._next_offset(judged, start), NO_SNAPSHOT
                continue
            count = max(
                count, 1
            )  # a batch larger than a segment, parked under other settings, has a segment of its own
            yield start, judged.part(start, start + count)
            start += count

    def _next_offset(self, judged: Judged, start: int) -> int:
        accepted = np.flatnonzero(judged.is_accepted[start:])
        return int(judged.decisions.base_offset[start + accepted[0]])

    def finish(self) -> tuple[Segments, tuple[OutputFile, ...], tuple[EpochEntry, ...]]:
        """The segments of the run, its other files, and the partition's leader epochs after it."""
        self._end_segment()
        end_offset = self._memory.producers.end_offset
        leader_epochs = self._lineage.finish(end_offset)
        if self._segments:
            self._put_snapshot(end_offset, write_canonical_snapshot(self._memory.producers.rows))
            self._put(LEADER_EPOCH_CHECKPOINT, write_leader_epochs(leader_epochs))
        return tuple(self._segments), tuple(self._outputs), leader_epochs

    def _room(
        self,
        sizes: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
    ) -> int:
        """How many of the next rows fit even if all are accepted."""
        size = self._segment.size if self._segment else 0
        used = self._memory.producers.end_offset - self._base_offset
        by_size = np.searchsorted(np.cumsum(sizes), self._segment_bytes - size, side="right")
        by_offset = np.searchsorted(np.cumsum(offsets), MAX_RELATIVE_OFFSET + 1 - used, side="right")
        return int(min(by_size, by_offset))

    def _roll(self) -> None:
        """The next accepted batch begins a segment; a snapshot holds what is known before it."""
        self._end_segment()
        self._base_offset = self._memory.producers.end_offset
        self._snapshot = (
            write_canonical_snapshot(self._memory.producers.rows) if self._base_offset else NO_SNAPSHOT
        )

    def _begin(self, first_row: int) -> _Segment:
        if self._snapshot:
            self._put_snapshot(self._base_offset, self._snapshot)
            self._snapshot = NO_SNAPSHOT
        return _Segment(self._base_offset, first_row)

    def _end_segment(self) -> None:
        if self._segment is None:
            return
        base_offset = self._segment.base_offset
        written = self._segment.digest.under(self._lineage.epoch_at(base_offset))
        self._segments.append(self._segment.finish(self._lineage.assign(base_offset, written)))
        if self._aborted:
            name = segment_file_name(self._segment.base_offset, LogFileKind.TXN_INDEX)
            self._put(name, write_txn_index(self._aborted))
        self._segment, self._aborted = None, []

    def _put_snapshot(self, offset: int, data: bytes) -> None:
        self._put(segment_file_name(offset, LogFileKind.SNAPSHOT), data)

    def _put(self, name: str, data: bytes) -> None:
        path = f"{self._directory}/{name}"
        self._lake.put(f"{self._folder}/{path}", data, lasting=False)
        self._outputs.append(OutputFile(path=path, size=len(data), digest=hashlib.sha256(data).hexdigest()))
