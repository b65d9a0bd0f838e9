"""Merges several copies of one partition's log into one, with a verdict per batch.

Batches come by offset. Of several at one offset the best comes first: of the newest leader epoch, then with
the most records. A batch that a newer leader has overwritten is `divergent`, as a follower would truncate it.
A batch whose offsets are there already is `overlap`. Offsets that no copy holds are gaps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_jobs.kafka.formats.checkpoints import UNDEFINED_EPOCH, EpochEntry
from spark_jobs.kafka.formats.record_batch import RecordBatchHeader
from spark_jobs.kafka.producers.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Offsets `first_offset` to `last_offset` that no copy holds, found before the batch at `place`."""

    place: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedCopies:
    """A verdict per batch (`accepted`: it is in the merged log), the gaps, and the end of the log."""

    verdicts: tuple[Verdict, ...]
    gaps: tuple[Gap, ...]
    end_offset: int


def merge_copies(
    batches: Iterable[RecordBatchHeader],
    *,
    leader_epochs: Sequence[EpochEntry] = (),
    taken_epochs: Sequence[EpochEntry] = (),
    taken_offset: int = 0,
) -> MergedCopies:
    """All `batches` of all copies in order.

    `leader_epochs` come from the copies' checkpoints. Earlier runs have taken the log up to `taken_offset`,
    from the leaders in `taken_epochs`.
    """
    verdicts: list[Verdict] = []
    gaps: list[Gap] = []
    newest: RecordBatchHeader | None = None
    end_offset = taken_offset
    for place, batch in enumerate(batches):
        if is_overwritten(batch, leader_epochs):
            verdict = Verdict.DIVERGENT
        elif batch.base_offset >= end_offset:
            verdict = Verdict.ACCEPTED
        elif batch.last_offset < taken_offset:
            verdict = Verdict.OVERLAP if is_of_leader(batch, taken_epochs) else Verdict.DIVERGENT
        else:
            verdict = Verdict.OVERLAP if is_same_batch(batch, newest) else Verdict.DIVERGENT
        verdicts.append(verdict)
        if verdict is Verdict.ACCEPTED:
            if batch.base_offset > end_offset:
                gaps.append(Gap(place=place, first_offset=end_offset, last_offset=batch.base_offset - 1))
            end_offset, newest = batch.last_offset + 1, batch
    return MergedCopies(verdicts=tuple(verdicts), gaps=tuple(gaps), end_offset=end_offset)


def is_overwritten(batch: RecordBatchHeader, leader_epochs: Sequence[EpochEntry]) -> bool:
    """Whether a newer leader began to write at or before the batch's end (facts §1.11, §6.3)."""
    epoch = batch.partition_leader_epoch
    return epoch != UNDEFINED_EPOCH and any(
        newer.epoch > epoch and newer.start_offset <= batch.last_offset for newer in leader_epochs
    )


def is_of_leader(batch: RecordBatchHeader, leader_epochs: Sequence[EpochEntry]) -> bool:
    """Whether the leader that wrote the batch's offset wrote the batch; true if either is unknown."""
    owners = [entry.epoch for entry in leader_epochs if entry.start_offset <= batch.base_offset]
    unknown = not owners or batch.partition_leader_epoch == UNDEFINED_EPOCH
    return unknown or owners[-1] == batch.partition_leader_epoch


def is_same_batch(batch: RecordBatchHeader, other: RecordBatchHeader | None) -> bool:
    """The same bytes, or the same batch of which compaction has left other records."""
    return other is not None and _identity(batch) == _identity(other)


def _identity(batch: RecordBatchHeader) -> tuple[int, ...]:
    """What compaction does not change; a batch without a producer id is identified by its checksum alone."""
    return (
        batch.base_offset,
        batch.last_offset_delta,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.partition_leader_epoch,
        batch.max_timestamp if batch.has_producer_id else batch.crc,
    )
