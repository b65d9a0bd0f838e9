"""Which batch of several copies speaks for an offset: the twin of `protocol.replica_copies` on columns.

Call it with consecutive chunks of the merged copies and the same `CopySettler`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spark_jobs.kernels.compile import helper, kernel
from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.rules import ACCEPTED
from spark_jobs.protocol.checkpoint import EpochEntry
from spark_jobs.protocol.leader_epochs import UNDEFINED_EPOCH
from spark_jobs.protocol.producer_state import NO_OFFSET
from spark_jobs.protocol.record_batch import NO_PRODUCER_ID
from spark_jobs.protocol.verdict import VERDICTS, Verdict

OVERLAP = VERDICTS.index(Verdict.OVERLAP)
DIVERGENT = VERDICTS.index(Verdict.DIVERGENT)
GAP = np.dtype([("place", np.int64), ("first_offset", np.int64), ("last_offset", np.int64)])
"""Offsets that no copy holds, found before the batch at `place` of the chunk."""
_FIELDS = 7

Int64s = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int8]


class CopyColumns(NamedTuple):
    """What is compared of a batch."""

    base_offset: Int64s
    last_offset_delta: npt.NDArray[np.int32]
    partition_leader_epoch: npt.NDArray[np.int32]
    producer_id: Int64s
    producer_epoch: npt.NDArray[np.int16]
    base_sequence: npt.NDArray[np.int32]
    max_timestamp: Int64s
    crc: npt.NDArray[np.uint32]


class _Epochs(NamedTuple):
    """Leader epochs ascending; `floors[i]` is the smallest start offset of epoch `i` and all newer ones."""

    epochs: Int64s
    starts: Int64s
    floors: Int64s


def _epochs_of(entries: Sequence[EpochEntry]) -> _Epochs:
    ordered = sorted(entries, key=lambda entry: (entry.epoch, entry.start_offset))
    starts = np.array([entry.start_offset for entry in ordered], dtype=np.int64)
    return _Epochs(
        epochs=np.array([entry.epoch for entry in ordered], dtype=np.int64),
        starts=starts,
        floors=np.minimum.accumulate(starts[::-1])[::-1].copy(),
    )


@helper
def _is_overwritten(epoch: int, last_offset: int, known: _Epochs) -> bool:
    if epoch == UNDEFINED_EPOCH:
        return False
    newer = np.searchsorted(known.epochs, epoch, side="right")
    return bool(newer < known.epochs.size and known.floors[newer] <= last_offset)


@helper
def _is_of_leader(epoch: int, base_offset: int, known: _Epochs) -> bool:
    if epoch == UNDEFINED_EPOCH:
        return True
    owner = np.searchsorted(known.starts, base_offset, side="right") - 1
    return bool(owner < 0 or known.epochs[owner] == epoch)


@helper
def _identify(rows: CopyColumns, index: int, identity: Int64s) -> None:
    identity[0] = rows.base_offset[index]
    identity[1] = rows.last_offset_delta[index]
    identity[2] = rows.producer_id[index]
    identity[3] = rows.producer_epoch[index]
    identity[4] = rows.base_sequence[index]
    identity[5] = rows.partition_leader_epoch[index]
    has_producer = rows.producer_id[index] > NO_PRODUCER_ID
    identity[6] = rows.max_timestamp[index] if has_producer else rows.crc[index]


@helper
def _is_same(identity: Int64s, newest: Int64s) -> bool:
    differences = 0
    for field in range(_FIELDS):
        differences += identity[field] != newest[field]
    return differences == 0


@kernel
def _settle(
    rows: CopyColumns,
    known: _Epochs,
    taken: _Epochs,
    taken_offset: int,
    end_offset: int,
    newest: Int64s,
    identity: Int64s,
    verdicts: Codes,
    gaps: Rows,
) -> tuple[int, int]:
    """(end offset, gaps found)."""
    found = 0
    for index in range(rows.base_offset.size):
        base = rows.base_offset[index]
        last = base + rows.last_offset_delta[index]
        epoch = rows.partition_leader_epoch[index]
        _identify(rows, index, identity)
        if _is_overwritten(epoch, last, known):
            verdicts[index] = DIVERGENT
        elif base >= end_offset:
            if base > end_offset:
                gaps[found].place = index
                gaps[found].first_offset = end_offset
                gaps[found].last_offset = base - 1
                found += 1
            end_offset = last + 1
            _identify(rows, index, newest)
            verdicts[index] = ACCEPTED
        elif last < taken_offset:
            verdicts[index] = OVERLAP if _is_of_leader(epoch, base, taken) else DIVERGENT
        else:
            verdicts[index] = OVERLAP if _is_same(identity, newest) else DIVERGENT
    return end_offset, found


class CopySettler:
    """Settles the merged copies of one partition chunk by chunk; the log so far ends at `end_offset`."""

    def __init__(
        self,
        *,
        leader_epochs: Sequence[EpochEntry] = (),
        taken_epochs: Sequence[EpochEntry] = (),
        taken_offset: int = 0,
    ) -> None:
        self._known, self._taken = _epochs_of(leader_epochs), _epochs_of(taken_epochs)
        self._taken_offset, self.end_offset = taken_offset, taken_offset
        self._newest = np.full(_FIELDS, NO_OFFSET, dtype=np.int64)

    def settle(self, rows: CopyColumns) -> tuple[Codes, Rows]:
        """A verdict code per batch, and rows of `GAP`."""
        size = rows.base_offset.size
        verdicts, gaps = np.empty(size, dtype=np.int8), np.empty(size, dtype=GAP)
        self.end_offset, found = _settle(
            rows,
            self._known,
            self._taken,
            self._taken_offset,
            self.end_offset,
            self._newest,
            np.empty(_FIELDS, dtype=np.int64),
            verdicts,
            gaps,
        )
        return verdicts, gaps[:found]
