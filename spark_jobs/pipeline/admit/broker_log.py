"""Admits a partition from copies of brokers' logs: batches keep their offsets, and are not judged.

A non-transactional batch inside its producer's open transaction is accepted, since consumers see it, and
reported as critical: no broker could load such a log again (facts §8.35).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.settings import OnMissing
from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.kafka.errors import CorruptCheckpoint, MisplacedBatch
from spark_jobs.kafka.formats.checkpoints import EpochEntry, LeaderEpochs, read_leader_epochs
from spark_jobs.kafka.formats.record_batch import CODEC_MASK, MAGIC_V2
from spark_jobs.kafka.producers.verdict import LOG_REPLAY
from spark_jobs.kernels.copies import CopyColumns, CopyMerger
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.gap_file import KnownGap, get_gaps, put_gaps
from spark_jobs.lake.index_rows import (
    PLACE_COLUMNS,
    IndexedCopy,
    chosen,
    concatenate,
    is_problem,
    iter_log,
    labels,
    take,
    values,
)
from spark_jobs.lake.manifest import StagedObjects
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.states import PartitionState, get_state
from spark_jobs.pipeline.admit.gaps import EVERYWHERE, GapKeeper, HeldBatches, Holes, ObjectNames, overlaps
from spark_jobs.pipeline.admit.job import AdmittedPartition, MisplacedBatches, PartitionJob
from spark_jobs.pipeline.admit.partition import PartitionRun, SourceOf, TaskFiles, VerdictFile
from spark_jobs.pipeline.admit.txn_indexes import TxnIndexWitness
from spark_jobs.pipeline.partition_memory import (
    ACCEPTED,
    BEHIND_GAP,
    CORRUPT,
    DIVERGENT,
    LATE,
    OPEN,
    OVERLAP,
    Codes,
    IndexChunk,
    Judged,
    PartitionMemory,
)
from spark_jobs.sources.broker_files import read_log_starts
from spark_jobs.sources.inheritance import Reach
from spark_jobs.sources.partitions import has_holes_by_design

# The copies of a log merged by offset.

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Rows of one copy in their order; `key` never falls, so that a copy's rows stay in its order."""

    rows: pa.RecordBatch
    key: Int64s
    copy: int

    def split(self, offset: int) -> tuple["_Piece", "_Piece"]:
        """The rows up to `offset`, and those after it."""
        place = int(np.searchsorted(self.key, offset, side="right"))
        return self.part(0, place), self.part(place, self.rows.num_rows)

    def part(self, start: int, stop: int) -> "_Piece":
        return _Piece(rows=self.rows.slice(start, stop - start), key=self.key[start:stop], copy=self.copy)


class _CopyReader:
    """One copy, read as far as the merge has come."""

    def __init__(self, chunks: Iterator[pa.RecordBatch], number: int) -> None:
        self._pieces = _pieces(chunks, number)
        self.held = next(self._pieces, None)

    def take_until(self, offset: int) -> Iterator[_Piece]:
        """Everything up to `offset`, piece by piece."""
        while self.held is not None:
            taken, left = self.held.split(offset)
            if taken.rows.num_rows:
                yield taken
            if left.rows.num_rows:
                self.held = left
                return
            self.held = next(self._pieces, None)


def _pieces(chunks: Iterator[pa.RecordBatch], copy: int) -> Iterator[_Piece]:
    reached = -1
    for rows in chunks:
        offsets = np.where(is_problem(rows), reached, values(rows, "base_offset"))
        key = np.maximum.accumulate(np.maximum(offsets, reached))
        reached = int(key[-1])
        yield _Piece(rows=rows, key=key, copy=copy)


def merged_copies(
    lake: ObjectStore, copies: Sequence[IndexedCopy], held: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int32]]]:
    """All rows by offset, and of each which copy it is of; memory is that of a chunk of each copy.

    Where several begin at one offset, the newest leader's comes first, then the one with the most records.
    `held` are batches that earlier runs kept, which count as one more copy, the last one.
    """
    readers = [_CopyReader(iter_log(lake, copy), copy.number) for copy in copies]
    readers.append(_CopyReader(held, number_of_held(copies)))
    readers = [reader for reader in readers if reader.held is not None]
    while readers:
        until = min(int(reader.held.key[-1]) for reader in readers if reader.held is not None)
        pieces = list(chain.from_iterable(reader.take_until(until) for reader in readers))
        readers = [reader for reader in readers if reader.held is not None]
        yield _in_order(pieces)


def number_of_held(copies: Sequence[IndexedCopy]) -> int:
    """The number of the copy that batches held by earlier runs are."""
    return max((copy.number for copy in copies), default=-1) + 1


def _in_order(pieces: list[_Piece]) -> tuple[pa.RecordBatch, npt.NDArray[np.int32]]:
    copy = np.concatenate([np.full(piece.rows.num_rows, piece.copy, dtype=np.int32) for piece in pieces])
    if len(pieces) == 1:
        return pieces[0].rows, copy
    rows = concatenate([piece.rows for piece in pieces])
    key = np.concatenate([piece.key for piece in pieces])
    # A stable sort: rows of one copy that are equal in all this stay as they were. What is no batch has the
    # key of the batch before it, and comes behind it.
    ranks = (-values(rows, "record_count"), -values(rows, "partition_leader_epoch"), is_problem(rows))
    order = np.lexsort((copy, *ranks, key))
    return take(rows, order), copy[order]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGaps:
    """Rows of `GAP` of a chunk: offsets that the broker deleted, and offsets that are missing.

    `spanned` are those of both that are before accepted batches: transactions that span them may have ended
    there.
    """

    deleted: Rows
    missing: Rows
    spanned: Rows


class CopyRules:
    """Judges merged copies: authoritative batches go to the fold, all others get a verdict.

    If it `holds`, everything after the first gap is held. `passed` are gaps that earlier runs published past.
    """

    def __init__(
        self, merger: CopyMerger, holes: Holes, *, holds: bool, passed: Sequence[KnownGap] = ()
    ) -> None:
        self._merger, self._holes, self._holds, self._passed = merger, holes, holds, passed
        self._is_damaged = False
        self.gap: tuple[int, int] | None = None
        """The first gap, if it holds what follows it."""

    @property
    def merged_end(self) -> int:
        """Where the merged copies end, also behind gaps."""
        return self._merger.end_offset

    @property
    def end_offset(self) -> int:
        """Where the admitted log ends."""
        return self._merger.end_offset if self.gap is None else self.gap[0]

    def chunk(self, rows: pa.RecordBatch, copy: npt.NDArray[np.int32]) -> tuple[IndexChunk, FoundGaps]:
        """The chunk, and the gaps found before some of its rows."""
        problem = is_problem(rows)
        columns = CopyColumns._make(values(rows, name)[~problem] for name in CopyColumns._fields)
        codes, holes = self._merger.merge(columns)
        preset: Codes = np.full(rows.num_rows, CORRUPT, dtype=np.int8)
        preset[~problem] = np.where(codes == ACCEPTED, OPEN, codes)
        places = np.flatnonzero(~problem)
        holes["place"] = places[holes["place"]]
        is_damaged = self._damaged_before(problem, preset == OPEN)[holes["place"]]
        is_real = ~_is_wrapper(rows)[holes["place"]]
        deleted, missing = self._holes.split(holes[is_real], is_damaged[is_real])
        found = self._hold(preset, deleted, missing)
        self._report_late(rows, preset)
        return IndexChunk(rows=rows, copy=copy, preset=preset, gap=self.gap), found

    def _hold(self, preset: Codes, deleted: Rows, missing: Rows) -> FoundGaps:
        """Holds what is behind the first gap."""
        if not self._holds:
            spanned = np.concatenate((deleted, missing))
            spanned = spanned[np.argsort(spanned["first_offset"])]
            return FoundGaps(deleted=deleted, missing=missing, spanned=spanned)
        start = 0 if self.gap is not None else int(missing["place"][0]) if len(missing) else len(preset)
        if self.gap is None and len(missing):
            self.gap = int(missing["first_offset"][0]), int(missing["last_offset"][0])
        deleted = deleted[(deleted["place"] <= start) & (deleted["first_offset"] < self.end_offset)]
        preset[start:][preset[start:] == OPEN] = BEHIND_GAP
        return FoundGaps(deleted=deleted, missing=missing, spanned=deleted)

    def _report_late(self, rows: pa.RecordBatch, preset: Codes) -> None:
        """Marks offsets that an earlier run published past, because no copy had them."""
        if self._passed:
            offset = values(rows, "base_offset").astype(np.int64)
            is_late = overlaps(offset, offset, self._passed) & ((preset == OVERLAP) | (preset == DIVERGENT))
            preset[is_late] = LATE

    def _damaged_before(
        self, problem: npt.NDArray[np.bool_], authoritative: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """For each row whether there are damaged bytes between it and the last authoritative one."""
        seen = np.cumsum(problem) + self._is_damaged
        newest = np.maximum.accumulate(np.where(authoritative, seen, 0))
        found: npt.NDArray[np.bool_] = seen > np.concatenate(([0], newest[:-1]))
        self._is_damaged = bool(seen[-1] > newest[-1])
        return found


def _is_wrapper(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """A legacy wrapper is at its last offset, so what seems to be missing before it is inside."""
    wrapper: npt.NDArray[np.bool_] = (values(rows, "magic") < MAGIC_V2) & (
        (values(rows, "attributes") & CODEC_MASK) != 0
    )
    return wrapper


def count_misplaced(before: MisplacedBatches | None, rows: pa.RecordBatch) -> MisplacedBatches | None:
    """Those before, and those among `rows`."""
    problems = rows.column("problem")
    if problems.null_count == rows.num_rows:
        return before
    places = np.flatnonzero(
        pc.starts_with(problems, MisplacedBatch.problem).fill_null(False).to_numpy(zero_copy_only=False)
    )
    if not len(places) or before is not None:
        return None if before is None else replace(before, count=before.count + len(places))
    return MisplacedBatches(
        count=len(places),
        object_order=int(values(rows, "object_order")[places[0]]),
        position=int(values(rows, "position")[places[0]]),
        reason=problems[int(places[0])].as_py(),
    )


class SegmentReaches:
    """How far each segment consists of whole batches in their places, from where it is read to a problem."""

    def __init__(self) -> None:
        self.found: dict[int, Reach] = {}
        self._ended: set[int] = set()

    def add(self, rows: pa.RecordBatch) -> None:
        """Rows of merged copies; those of one object come in the order of their positions."""
        order, problem = values(rows, "object_order"), is_problem(rows)
        position = values(rows, "position") + values(rows, "size")
        next_offset = values(rows, "base_offset") + np.maximum(values(rows, "last_offset_delta"), 0) + 1
        by_object = np.argsort(order, kind="stable")
        starts = np.flatnonzero(np.diff(order[by_object]))
        for places in np.split(by_object, starts + 1):
            number, good = int(order[places[0]]), self._good(int(order[places[0]]), places, problem[places])
            if len(good):
                last = int(good[-1])
                self.found[number] = Reach(position=int(position[last]), next_offset=int(next_offset[last]))

    def _good(self, object_order: int, places: Int64s, problem: npt.NDArray[np.bool_]) -> Int64s:
        """Those of an object's rows that no problem is before."""
        if object_order in self._ended:
            return places[:0]
        if not problem.any():
            return places
        self._ended.add(object_order)
        return places[: int(np.argmax(problem))]


def unused_chunk(rows: pa.RecordBatch, copy: int) -> IndexChunk:
    """Rows of a copy that is not used, because the capture is authoritative."""
    preset = np.where(is_problem(rows), CORRUPT, OVERLAP).astype(np.int8)
    return IndexChunk(rows=rows, copy=np.full(rows.num_rows, copy, dtype=np.int32), preset=preset)


def leader_epochs_of(
    lake: ObjectStore,
    copies: Sequence[IndexedCopy],
    held: Iterator[pa.RecordBatch],
    checkpointed: Iterable[EpochEntry],
) -> tuple[EpochEntry, ...]:
    """The leader epochs of several copies: from their checkpoints and their batches.

    Not for one copy alone: its batches count, also if its checkpoint differs.
    Batches that earlier runs `held` count as one more copy.
    """
    starts: dict[int, int] = {}
    logs = [iter_log(lake, copy, columns=[*PLACE_COLUMNS, "partition_leader_epoch"]) for copy in copies]
    in_batches = chain.from_iterable(map(_epochs_in, (*logs, held)))
    for entry in chain(checkpointed, in_batches):
        starts[entry.epoch] = min(starts.get(entry.epoch, entry.start_offset), entry.start_offset)
    return tuple(EpochEntry(epoch=epoch, start_offset=start) for epoch, start in sorted(starts.items()))


def _epochs_in(chunks: Iterator[pa.RecordBatch]) -> Iterator[EpochEntry]:
    """Each epoch of a copy's batches with its first offset, for every chunk."""
    for rows in chunks:
        good = chosen(rows, ~is_problem(rows))
        epochs, offsets = values(good, "partition_leader_epoch"), values(good, "base_offset")
        known, index = np.unique(epochs, return_inverse=True)
        first = np.full(len(known), np.iinfo(np.int64).max)
        np.minimum.at(first, index, offsets)
        yield from (
            EpochEntry(epoch=int(epoch), start_offset=int(start))
            for epoch, start in zip(known, first, strict=True)
            if epoch >= 0
        )


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
        self._memory, self._state = PartitionMemory(state, LOG_REPLAY), state.without_producers()
        self._epochs = LeaderEpochs(entries=state.leader_epochs)
        self._misplaced: MisplacedBatches | None = None
        self._reaches = SegmentReaches()
        self._witness = TxnIndexWitness(job.objects, job.txn_indexes)
        known, objects = get_gaps(lake, state.gaps), ObjectNames(job.objects)
        holds = settings.topic(job.partition.topic).gaps is OnMissing.HOLD and not self._is_internal
        self._held = HeldBatches(lake, known, objects)
        self._gaps = GapKeeper(known, objects, holds=holds, day=files.task.day)
        self._rules = CopyRules(
            self._merger(state),
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

    def _merger(self, state: PartitionState) -> CopyMerger:
        return CopyMerger(
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
        """The log start offset: below it the broker has deleted everything."""
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
            gap_rows=self._gaps.rows(self._rules.merged_end),
            reaches=self._reaches.found,
            txn_index_differences=self._witness.differences(
                StagedObjects(self._files.task.settings),
                log_start_offset=self._state.log_start_offset,
                first=self._state.end_offset,
                end=admitted.end_offset,
            ),
        )

    def _admit_chunk(self, rows: pa.RecordBatch, copy: npt.NDArray[np.int32]) -> None:
        chunk, found = self._rules.chunk(rows, copy)
        judged, closed = self._memory.judge(chunk, found.spanned)
        self._run.keep(judged, closed)
        self._witness.add(judged, closed)
        self._run.staged_end_offset = max(self._run.staged_end_offset, _end_of(judged))
        self._epochs = _follow(self._epochs, judged)
        self._misplaced = count_misplaced(self._misplaced, rows)
        self._reaches.add(rows)
        if not self._is_internal:
            self._keep_gaps(chunk, found)

    def _keep_gaps(self, chunk: IndexChunk, found: FoundGaps) -> None:
        held = np.flatnonzero(chunk.preset == BEHIND_GAP)
        self._held.keep(take(chunk.rows, held))
        self._gaps.keep(
            chunk.rows,
            deleted=found.deleted,
            missing=found.missing,
            authoritative=np.flatnonzero((chunk.preset == OPEN) | (chunk.preset == BEHIND_GAP)),
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
    """The leader epochs in the copies' checkpoints; an unreadable checkpoint has none."""
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
    """The offset after the last batch, with any verdict; damaged bytes have none."""
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
