"""A partition from copies of brokers' logs: offsets are authoritative, batches are applied, not judged.

A plain batch inside its producer's open transaction is taken like any other, since consumers see it, and told
as critical: no broker could load such a log again (facts §8.35).
"""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.admitting.copy_chunks import (
    CopyRules,
    FoundGaps,
    SegmentReaches,
    count_misplaced,
    leader_epochs_of,
    merged_copies,
)
from spark_jobs.admitting.gaps import EVERYWHERE, GapKeeper, HeldBatches, Holes, ObjectNames
from spark_jobs.admitting.job import AdmittedPartition, MisplacedBatches, PartitionJob
from spark_jobs.admitting.judging import BEHIND_GAP, LATE, OPEN, Chunk, Judged, PartitionMemory
from spark_jobs.admitting.partition import PartitionRun, TaskFiles
from spark_jobs.admitting.verdict_file import SourceOf, VerdictFile
from spark_jobs.config.settings import OnMissing
from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.kernels.replica_copies import CopySettler
from spark_jobs.protocol.checkpoint import EpochEntry, read_leader_epochs
from spark_jobs.protocol.decision import Rules
from spark_jobs.protocol.errors import CorruptCheckpoint
from spark_jobs.protocol.leader_epochs import LeaderEpochs
from spark_jobs.protocol.producer_state import AppendOrigin
from spark_jobs.sources.broker_files import read_log_starts
from spark_jobs.sources.partitions import has_holes_by_design
from spark_jobs.storage.gap_file import get_gaps, put_gaps
from spark_jobs.storage.index_rows import is_problem, labels, take, values
from spark_jobs.storage.staged import StagedObjects
from spark_jobs.storage.state_file import PartitionState, get_state

REPLAY = Rules(origin=AppendOrigin.REPLICATION, enforce_open_transaction=False)


def admit_broker_log(job: PartitionJob, files: TaskFiles) -> AdmittedPartition:
    """Merges the copies, applies the authoritative batches, and reports missing offsets."""
    with ExitStack() as stack:
        return _BrokerLog(job, files, stack).admit()


class _BrokerLog:
    """One partition from copies of brokers' logs while it is admitted."""

    def __init__(self, job: PartitionJob, files: TaskFiles, stack: ExitStack) -> None:
        lake, settings = files.task.lake, files.task.settings
        self._job, self._files = job, files
        state = get_state(lake, job.state)
        self._memory, self._state = PartitionMemory(state, REPLAY), state.without_producers()
        self._epochs = LeaderEpochs(entries=state.leader_epochs)
        self._misplaced: MisplacedBatches | None = None
        self._reaches = SegmentReaches()
        known, objects = get_gaps(lake, state.gaps), ObjectNames(job.objects)
        holds = settings.topic(job.partition.topic).gaps is OnMissing.HOLD and not self._is_internal
        self._held = HeldBatches(lake, known, objects)
        self._gaps = GapKeeper(known, objects, holds=holds, day=files.task.day)
        self._rules = CopyRules(
            self._settler(state),
            Holes(
                EVERYWHERE if has_holes_by_design(job.partition.topic, settings) else job.cleaned_offset,
                self._log_start,
                known.open,
            ),
            holds=holds,
            passed=known.passed,
        )
        batches = VerdictFile(lake, job.partition, _source_of(objects))
        self._run = PartitionRun(job, files, stack.enter_context(batches))
        self._run.inherited = self._held.count
        self._run.staged_end_offset = job.staged_end_offset

    @property
    def _is_internal(self) -> bool:
        return self._job.partition.topic in INTERNAL_TOPICS

    def _settler(self, state: PartitionState) -> CopySettler:
        return CopySettler(
            leader_epochs=self._leader_epochs(state),
            taken_epochs=state.leader_epochs,
            taken_offset=state.end_offset,
        )

    def _leader_epochs(self, state: PartitionState) -> tuple[EpochEntry, ...]:
        """The leader epochs of several copies; the state provides the inherited ones.

        Batches that earlier runs held count as one more copy.
        """
        job = self._job
        if job.staged_copies + bool(self._held.count) < 2:
            return ()
        inherited = state.leader_epochs if job.inherits else ()
        known = chain(_checkpointed(job, self._files), inherited)
        return leader_epochs_of(self._files.task.lake, job.copies, self._held.rows(), known)

    def _log_start(self) -> int:
        """Below it the broker has deleted everything."""
        starts = read_log_starts(
            self._job.first_segments,
            self._job.checkpoints,
            StagedObjects(self._files.task.settings),
            log_start_offset=self._job.log_start_offset,
        )
        return max(starts.proven, self._state.log_start_offset)

    def admit(self) -> AdmittedPartition:
        """The whole partition."""
        for rows, copy in merged_copies(self._files.task.lake, self._job.copies, self._held.rows()):
            self._admit_chunk(rows, copy)
        files = self._held.finish()
        after = self._state_after(put_gaps(self._files.task.lake, self._gaps.gaps_after(files)))
        admitted = self._run.finish(self._state, after, self._memory, ())
        return replace(
            admitted,
            misplaced=self._misplaced,
            gap_rows=self._gaps.rows(self._rules.settled_end),
            reaches=self._reaches.found,
        )

    def _admit_chunk(self, rows: pa.RecordBatch, copy: npt.NDArray[np.int32]) -> None:
        chunk, found = self._rules.chunk(rows, copy)
        judged, closed = self._memory.judge(chunk, found.spanned)
        self._run.keep(judged, closed)
        self._run.staged_end_offset = max(self._run.staged_end_offset, _end_of(judged))
        self._epochs = _follow(self._epochs, judged)
        self._misplaced = count_misplaced(self._misplaced, rows)
        self._reaches.add(rows)
        if not self._is_internal:
            self._keep_gaps(chunk, found)

    def _keep_gaps(self, chunk: Chunk, found: FoundGaps) -> None:
        held = np.flatnonzero(chunk.preset == BEHIND_GAP)
        self._held.keep(take(chunk.rows, held))
        self._gaps.keep(
            chunk.rows,
            deleted=found.deleted,
            missing=found.missing,
            speaks=np.flatnonzero((chunk.preset == OPEN) | (chunk.preset == BEHIND_GAP)),
            held=held,
            late=np.flatnonzero(chunk.preset == LATE),
        )
        self._run.gaps = self._gaps.count

    def _state_after(self, gaps: str) -> PartitionState:
        return replace(
            self._state,
            end_offset=max(self._rules.end_offset, self._memory.producers.end_offset),
            leader_epochs=self._epochs.entries,
            producers=self._memory.producers.rows,
            open_transactions=self._memory.transactions.open_transactions(),
            gaps=gaps,
        )


def _checkpointed(job: PartitionJob, files: TaskFiles) -> Iterator[EpochEntry]:
    """The leader epochs that the copies' checkpoints know; one that cannot be read knows none."""
    staged = StagedObjects(files.task.settings)
    for entry in job.checkpoints:
        with suppress(CorruptCheckpoint):
            yield from read_leader_epochs(staged.read(entry), source=f"{entry.source}/{entry.path}")


def _source_of(objects: ObjectNames) -> SourceOf:
    """The source of each row's object."""
    names = list(dict.fromkeys(entry.source for entry in objects.entries)) or [""]
    orders = np.array([entry.order for entry in objects.entries], dtype=np.int64)
    sources = np.array([names.index(entry.source) for entry in objects.entries], dtype=np.int32)
    return lambda judged: labels(sources[np.searchsorted(orders, values(judged.rows, "object_order"))], names)


def _end_of(judged: Judged) -> int:
    """The offset after the last batch, whatever became of it; what is no batch has none."""
    last = values(judged.rows, "base_offset") + values(judged.rows, "last_offset_delta")
    return int(np.where(is_problem(judged.rows), -1, last).max()) + 1


def _follow(epochs: LeaderEpochs, judged: Judged) -> LeaderEpochs:
    """The leader epochs of the accepted batches."""
    accepted = judged.is_accepted
    epoch: npt.NDArray[np.int32] = values(judged.rows, "partition_leader_epoch")[accepted]
    offset = judged.decisions.base_offset[accepted]
    changes = np.flatnonzero(np.diff(epoch, prepend=epochs.latest_epoch) != 0)
    for place in changes[epoch[changes] >= 0]:
        epochs = epochs.assign(int(epoch[place]), int(offset[place]))
    return epochs
