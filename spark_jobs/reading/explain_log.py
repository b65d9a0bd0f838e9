"""Which consumers get the batches of a stored log, and why: the answers of `onceover explain PATH`."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.kafka.formats.record_batch import NO_SEQUENCE
from spark_jobs.kafka.producers.verdict import batch_name
from spark_jobs.kernels.columns import UNREADABLE_CONTROL_TYPE
from spark_jobs.reading.isolation import Isolation
from spark_jobs.reading.partition_scan import ScannedPartition
from spark_jobs.reading.visibility import BatchOutcome, last_offsets

Int64s = npt.NDArray[np.int64]


class VisibleTo(StrEnum):
    """The consumers that get the records of a batch."""

    ALL = "all consumers"
    READ_UNCOMMITTED = "read_uncommitted"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAnswer:
    """One batch, or an offset that is in none; the `reason` says why these consumers get it, or why none."""

    topic: str | None
    partition: int | None
    first_offset: int
    last_offset: int
    batch: str
    visible_to: VisibleTo
    reason: str
    place: str

    @property
    def offsets(self) -> str:
        one = self.first_offset == self.last_offset
        return f"offset {self.first_offset}" if one else f"offsets {self.first_offset} to {self.last_offset}"

    @property
    def sentence(self) -> str:
        """All of it for a person."""
        return f"{self.batch} at {self.offsets}: visible to {self.visible_to}; {self.reason}"


def explain_partition(
    scanned: ScannedPartition, *, offset: int | None = None, producer_id: int | None = None
) -> Iterator[LogAnswer]:
    """An answer for every batch, those of the producer, or the one that holds the offset."""
    batches = scanned.batches
    is_chosen = np.full(batches.rows, True)
    if producer_id is not None:
        is_chosen &= batches.producer_id == producer_id
    if offset is not None:
        is_chosen &= (batches.base_offset <= offset) & (last_offsets(batches) >= offset)
    log = _Log(scanned)
    yield from map(log.answer, np.flatnonzero(is_chosen).tolist())
    if offset is not None and not is_chosen.any() and producer_id is None:
        yield log.without_batch(offset)


class _Log:
    def __init__(self, scanned: ScannedPartition) -> None:
        self._scanned, self._batches, self._seen = scanned, scanned.batches, scanned.visibility
        self._committed = self._seen.visible(self._batches, Isolation.READ_COMMITTED)
        self._uncommitted = self._seen.visible(self._batches, Isolation.READ_UNCOMMITTED)

    def answer(self, row: int) -> LogAnswer:
        batches = self._batches
        fields = {name: getattr(batches, name)[row].item() for name in batches._fields}
        file = self._scanned.segments[self._segment_of[row]].file.key.rpartition("/")[2]
        return LogAnswer(
            topic=self._scanned.files.topic,
            partition=self._scanned.files.partition,
            first_offset=fields["base_offset"],
            last_offset=fields["base_offset"] + fields["last_offset_delta"],
            batch=batch_name(fields),
            visible_to=self._visible_to(row),
            reason="; ".join(self._reasons(row)),
            place=f"{file} at byte {fields['position']}",
        )

    def _visible_to(self, row: int) -> VisibleTo:
        if not self._batches.crc_ok[row] or not self._uncommitted[row]:
            return VisibleTo.NONE
        return VisibleTo.ALL if self._committed[row] else VisibleTo.READ_UNCOMMITTED

    def _reasons(self, row: int) -> Iterator[str]:
        if not self._batches.crc_ok[row]:
            yield "its checksum does not match its bytes: a consumer fails here"
            return
        yield self._outcome(row)
        if last_offsets(self._batches)[row] < self._seen.log_start_offset:
            yield f"it is below the log start offset {self._seen.log_start_offset}"
        elif self._uncommitted[row] and not self._committed[row] and self._is_decided(row):
            oldest = self._seen.open_txns[0]
            yield (
                f"it is behind the last stable offset {self._seen.last_stable_offset}, where the open "
                f"transaction of producer {oldest.producer_id} begins"
            )
        if (earlier := self._repeated[row]) >= 0:
            yield f"the batch at offset {self._batches.base_offset[earlier]} has the same sequences"

    def _is_decided(self, row: int) -> bool:
        return self._seen.outcome[row] in {BatchOutcome.PLAIN, BatchOutcome.COMMITTED}

    def _outcome(self, row: int) -> str:
        outcome = BatchOutcome(int(self._seen.outcome[row]))
        if outcome is BatchOutcome.PLAIN:
            return "it is in no transaction"
        if outcome is BatchOutcome.CONTROL:
            return self._control(row)
        begins = f"its transaction begins at offset {self._begins[row]}"
        if outcome is BatchOutcome.OPEN:
            where = "this segment" if self._scanned.files.is_segment else "this log"
            return f"{begins} and has no marker in {where}"
        marker = self._batches.base_offset[self._seen.ended_by[row]]
        return f"{begins} and was {outcome.name.lower()} by the marker at offset {marker}"

    def _control(self, row: int) -> str:
        kind = self._batches.control_type[row]
        if kind == UNREADABLE_CONTROL_TYPE:
            return "its control record cannot be read"
        if kind not in {ControlType.ABORT, ControlType.COMMIT}:
            return "consumers do not get control batches"
        first = self._begins[row]
        if first < 0:
            return "consumers do not get markers; it ends no transaction"
        return f"consumers do not get markers; it ends the transaction that begins at offset {first}"

    @cached_property
    def _begins(self) -> Int64s:
        """The first offset of the transaction of each batch, or that a marker ended; -1 without one."""
        batches, seen = self._batches, self._seen
        found = np.full(batches.rows, -1, dtype=np.int64)
        rows = np.flatnonzero(
            np.isin(seen.outcome, (BatchOutcome.COMMITTED, BatchOutcome.ABORTED, BatchOutcome.OPEN))
        )
        pairs = np.stack((batches.producer_id[rows], seen.ended_by[rows]))
        _, first, transaction = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
        found[rows] = batches.base_offset[rows[first]][transaction.ravel()]
        ended = rows[seen.ended_by[rows] >= 0]
        found[seen.ended_by[ended]] = found[ended]
        return found

    @cached_property
    def _segment_of(self) -> Int64s:
        return self._scanned.segment_of

    @cached_property
    def _repeated(self) -> Int64s:
        """For each batch the row of the one before it with the same sequences; -1 for none.

        Kafka's own topics may restart sequences, so theirs say nothing.
        """
        batches, found = self._batches, np.full(self._batches.rows, -1, dtype=np.int64)
        if self._scanned.is_internal:
            return found
        rows = np.flatnonzero((batches.base_sequence != NO_SEQUENCE) & batches.crc_ok)
        keys = (batches.last_offset_delta, batches.base_sequence, batches.producer_epoch, batches.producer_id)
        rows = rows[np.lexsort((rows, *(key[rows] for key in keys)))]
        same = np.logical_and.reduce([key[rows][1:] == key[rows][:-1] for key in keys])
        found[rows[1:][same]] = rows[:-1][same]
        return found

    def without_batch(self, offset: int) -> LogAnswer:
        return LogAnswer(
            topic=self._scanned.files.topic,
            partition=self._scanned.files.partition,
            first_offset=offset,
            last_offset=offset,
            batch="no batch",
            visible_to=VisibleTo.NONE,
            reason=self._why_none(offset),
            place="",
        )

    def _why_none(self, offset: int) -> str:
        start, end = self._seen.log_start_offset, self._seen.log_end_offset
        if offset < start:
            return f"the log starts at offset {start}: older segments were deleted or not copied"
        if offset >= end:
            return f"the log ends at offset {end}"
        before = int(np.searchsorted(last_offsets(self._batches), offset))
        first = last_offsets(self._batches)[before - 1] + 1 if before else start
        last = self._batches.base_offset[before] - 1 if before < self._batches.rows else end - 1
        return f"offsets {first} to {last} are in no batch: compaction removed them, or the copy lacks them"


def as_json(answer: LogAnswer) -> dict[str, Any]:
    """The answer as one JSON object."""
    names = ("topic", "partition", "first_offset", "last_offset", "batch", "visible_to", "reason", "place")
    return {**{name: getattr(answer, name) for name in names}, "sentence": answer.sentence}
