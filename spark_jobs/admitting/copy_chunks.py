"""The copies of a broker's log merged by offset, with the verdicts that follow from the copies alone."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.admitting.job import MisplacedBatches
from spark_jobs.admitting.judging import ACCEPTED, CORRUPT, OPEN, OVERLAP, Chunk, Codes
from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.replica_copies import CopyColumns, CopySettler
from spark_jobs.protocol.checkpoint import EpochEntry
from spark_jobs.protocol.errors import MisplacedBatch
from spark_jobs.protocol.record_batch import CODEC_MASK, MAGIC_V2
from spark_jobs.storage.index_files import IndexedCopy
from spark_jobs.storage.index_rows import chosen, concatenate, is_problem, take, values
from spark_jobs.storage.log_rows import PLACE_COLUMNS, iter_log
from spark_jobs.storage.object_store import ObjectStore

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

    def __init__(self, lake: ObjectStore, copy: IndexedCopy) -> None:
        self._pieces = _pieces(iter_log(lake, copy), copy.number)
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
    lake: ObjectStore, copies: Sequence[IndexedCopy]
) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.int32]]]:
    """All rows by offset, and of each which copy it is of; memory is that of a chunk of each copy.

    Where several begin at one offset, the newest leader's comes first, then the one with the most records.
    """
    readers = [reader for copy in copies if (reader := _CopyReader(lake, copy)).held is not None]
    while readers:
        until = min(int(reader.held.key[-1]) for reader in readers if reader.held is not None)
        pieces = list(chain.from_iterable(reader.take_until(until) for reader in readers))
        readers = [reader for reader in readers if reader.held is not None]
        yield _in_order(pieces)


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


class CopyRules:
    """Settles merged copies: what speaks for its offsets is left to the fold, all else has a verdict."""

    def __init__(self, settler: CopySettler) -> None:
        self._settler = settler
        self._is_damaged = False

    @property
    def end_offset(self) -> int:
        return self._settler.end_offset

    def chunk(
        self, rows: pa.RecordBatch, copy: npt.NDArray[np.int32]
    ) -> tuple[Chunk, Rows, npt.NDArray[np.bool_]]:
        """The chunk, the gaps found before some of its rows, and in which of them there is damage."""
        problem = is_problem(rows)
        columns = CopyColumns._make(values(rows, name)[~problem] for name in CopyColumns._fields)
        codes, gaps = self._settler.settle(columns)
        preset: Codes = np.full(rows.num_rows, CORRUPT, dtype=np.int8)
        preset[~problem] = np.where(codes == ACCEPTED, OPEN, codes)
        places = np.flatnonzero(~problem)
        gaps["place"] = places[gaps["place"]]
        is_damaged = self._damaged_before(problem, preset == OPEN)[gaps["place"]]
        is_real = ~_is_wrapper(rows)[gaps["place"]]
        return Chunk(rows=rows, copy=copy, preset=preset), gaps[is_real], is_damaged[is_real]

    def _damaged_before(
        self, problem: npt.NDArray[np.bool_], speaks: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """For each row whether there is no batch somewhere between it and the last one that speaks."""
        seen = np.cumsum(problem) + self._is_damaged
        newest = np.maximum.accumulate(np.where(speaks, seen, 0))
        found: npt.NDArray[np.bool_] = seen > np.concatenate(([0], newest[:-1]))
        self._is_damaged = bool(seen[-1] > newest[-1])
        return found


def _is_wrapper(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """A legacy wrapper stands at its last offset, so what seems to be missing before it is inside."""
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


def unused_chunk(rows: pa.RecordBatch, copy: int) -> Chunk:
    """Rows of a copy that has no say: the partition's word is the capture's."""
    preset = np.where(is_problem(rows), CORRUPT, OVERLAP).astype(np.int8)
    return Chunk(rows=rows, copy=np.full(rows.num_rows, copy, dtype=np.int32), preset=preset)


def leader_epochs_of(
    lake: ObjectStore, copies: Sequence[IndexedCopy], checkpointed: Iterable[EpochEntry]
) -> tuple[EpochEntry, ...]:
    """What several copies tell of their leaders: their checkpoints, and the epochs of their batches.

    One copy alone contradicts nobody: its batches count whatever its checkpoint says.
    """
    if len(copies) < 2:
        return ()
    starts: dict[int, int] = {}
    in_batches = chain.from_iterable(_epochs_in(lake, copy) for copy in copies)
    for entry in chain(checkpointed, in_batches):
        starts[entry.epoch] = min(starts.get(entry.epoch, entry.start_offset), entry.start_offset)
    return tuple(EpochEntry(epoch=epoch, start_offset=start) for epoch, start in sorted(starts.items()))


def _epochs_in(lake: ObjectStore, copy: IndexedCopy) -> Iterator[EpochEntry]:
    """Each epoch of the copy's batches with its first offset, for every chunk."""
    for rows in iter_log(lake, copy, columns=[*PLACE_COLUMNS, "partition_leader_epoch"]):
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
