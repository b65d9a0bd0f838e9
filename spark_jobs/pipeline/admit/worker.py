"""What a Spark task of `admit` does: it admits partitions and writes their tables, logs and states.

Partitions of brokers' logs are admitted in `broker_log`, captured ones here: every batch is judged as its
leader would judge it (facts §2.3-2.11). Headers decide. What a leader finds out only by reading records (a
payload that does not decompress, records that contradict their header) shows later, when they are decoded. A
capture does not show whether a coordinator has verified a transactional batch (facts §2.5): it counts as
verified. Nor does a capture show when a batch arrived: timestamps stay the producers' own, also under
LogAppendTime.
"""

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.checkpoints import EpochEntry, LeaderEpochs, write_leader_epochs
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.indexes import AbortedTxn, write_txn_index
from spark_jobs.kafka.formats.log_files import LEADER_EPOCH_CHECKPOINT, LogFileKind, segment_file_name
from spark_jobs.kafka.log.segment import MAX_RELATIVE_OFFSET
from spark_jobs.kafka.producers.producer_state import AppendOrigin
from spark_jobs.kernels.partition_transactions import TRANSACTION, TransactionTable
from spark_jobs.kernels.producers import Rows, write_canonical_snapshot
from spark_jobs.lake.accepted_log import LOG, PlannedSegment, SegmentDigest, Segments
from spark_jobs.lake.index_rows import iter_index, values
from spark_jobs.lake.inherited_rows import get_inherited, inherited_object, put_inherited, with_needed_objects
from spark_jobs.lake.manifest import Truncation
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import read_table
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.lake.states import PartitionState, get_state, make_states_durable
from spark_jobs.pipeline.admit.broker_log import admit_broker_log, unused_chunk
from spark_jobs.pipeline.admit.job import AdmitSummary, AdmitTask, AdmittedPartition, PartitionJob
from spark_jobs.pipeline.admit.partition import PartitionRun, SharedFile, TaskFiles, VerdictFile
from spark_jobs.pipeline.captures.judge import CaptureJudge, CaptureObjects, ParkingMemory, with_markers
from spark_jobs.pipeline.partition_memory import OPEN, IndexChunk, Judged, PartitionMemory
from spark_jobs.tables.admit import PARTITION_TRANSACTIONS

# The plan of a captured partition's accepted log: segments, snapshots, aborted transactions, leader epochs.
# A run starts a new segment at the partition's log end offset, and rolls as a broker does: before a batch
# that does not fit, also if that batch is rejected (facts §2.3). Segments are planned here, from headers;
# `materialise`, which reads their batches, writes them.

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

    def fitting(self, chunk: IndexChunk) -> Iterator[IndexChunk]:
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
            yield IndexChunk(
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
        self._lake.put(f"{self._folder}/{path}", data, durable=False)
        self._outputs.append(OutputFile(path=path, size=len(data), digest=hashlib.sha256(data).hexdigest()))


# Captured partitions, and the task.

NO_TRANSACTIONS = np.empty(0, dtype=TRANSACTION)


def admit_capture(job: PartitionJob, files: TaskFiles) -> AdmittedPartition:
    """Judges the batches in arrival order, gives offsets to those that it takes, and plans the log."""
    with ExitStack() as stack:
        return _Capture(job, files, stack).admit()


class _Capture:
    """One captured partition during admission."""

    def __init__(self, job: PartitionJob, files: TaskFiles, stack: ExitStack) -> None:
        task = files.task
        self._job, self._task = job, task
        state = get_state(task.lake, job.state)
        self._state = state.without_producers()
        self._objects = CaptureObjects(job.objects, task.settings)
        self._parked = self._parked_before()
        self._judge = CaptureJudge(job.partition, state, self._objects, task.settings, parked=self._parked)
        self._memory = self._judge.memory
        batches = VerdictFile(task.lake, job.partition, lambda judged: self._objects.sources(judged.rows))
        self._run = PartitionRun(job, files, stack.enter_context(batches))
        self._run.inherited = len(self._parked)
        self._log = self._open_log()

    def _parked_before(self) -> Rows:
        """The parked batches of earlier runs; in memory `object` is their object's order."""
        rows = get_inherited(self._task.lake, self._state.parked).rows
        orders = np.array([entry.order for entry in self._objects.entries if entry.order < 0], dtype=np.int32)
        if len(rows):
            rows["object"] = orders[rows["object"]]
        return rows

    def _open_log(self) -> AcceptedLog:
        return AcceptedLog(
            self._task.lake,
            self._task.folder,
            f"{LOG}{self._job.partition}",
            memory=self._memory,
            lineage=Lineage(self._state, self._job.truncation),
            segment_bytes=self._task.settings.limits.segment_bytes,
        )

    def admit(self) -> AdmittedPartition:
        """Admits all batches of the run."""
        lake, job = self._task.lake, self._job
        markers = read_table(lake, job.markers) if job.markers else None
        keys = (key for copy in job.copies for key in copy.keys)
        for rows in with_markers(iter_index(lake, keys), markers):
            for part in self._log.fitting(self._judge.chunk(rows)):
                self._keep(*self._judge.judge(part))
        parked = self._end()
        for copy in job.unused:
            for rows in iter_index(lake, copy.keys):
                self._run.keep(*self._memory.judge(unused_chunk(rows, copy.number)))
        segments, outputs, leader_epochs = self._log.finish()
        after = replace(_state_after(self._state, self._memory, parked), leader_epochs=leader_epochs)
        self._run.staged_end_offset = after.end_offset
        admitted = self._run.finish(self._state, after, self._memory, outputs)
        return replace(admitted, segments=segments)

    def _keep(self, judged: Judged, closed: Rows) -> None:
        self._log.append(judged, closed, first_row=self._run.rows)
        self._run.keep(judged, closed)

    def _end(self) -> str:
        """Stores the parked batches for the next run; returns the name of their file."""
        if not isinstance(self._memory, ParkingMemory):
            return ""
        self._keep(*self._memory.end())
        judged, rows = self._memory.left()
        self._run.keep(judged, NO_TRANSACTIONS)
        entries = {entry.order: entry for entry in self._objects.entries}
        orders, places = np.unique(rows["object"], return_inverse=True)
        rows["object"] = places
        objects = [inherited_object(entries[int(order)]) for order in orders]
        return put_inherited(self._task.lake, with_needed_objects(objects, rows))


def _state_after(state: PartitionState, memory: PartitionMemory, parked: str) -> PartitionState:
    return replace(
        state,
        end_offset=memory.producers.end_offset,
        producers=memory.producers.rows,
        open_transactions=memory.transactions.open_transactions(),
        parked=parked,
    )


ADMIT = {AppendOrigin.CLIENT: admit_capture, AppendOrigin.REPLICATION: admit_broker_log}


def admit_partitions(task: AdmitTask) -> AdmitSummary:
    """Admits one partition after the other; the same task again writes the same bytes."""
    with ExitStack() as stack:
        transactions = stack.enter_context(
            SharedFile(task.lake, PARTITION_TRANSACTIONS, PARTITION_TRANSACTIONS.file_of(task=task.number))
        )
        files = TaskFiles(task=task, transactions=transactions)
        partitions = tuple(ADMIT[job.origin](job, files) for job in task.jobs)
        make_states_durable(task.lake, (each.state for each in partitions))
        outputs = transactions.finish(task.folder)
    return AdmitSummary(partitions=partitions, transactions=transactions.name, outputs=outputs)
