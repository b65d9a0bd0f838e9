"""What Spark tasks of `resolve` do last: close partitions with outcomes, held batches and stable offsets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import CONSUMER_OFFSETS as OFFSETS_TOPIC
from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.execution.python_worker import from_bytes, to_bytes
from spark_jobs.kafka.coordinator.group_offsets import OffsetsMarker
from spark_jobs.kafka.log.read_committed import first_unstable_offset, last_stable_offset
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kernels.partition_transactions import NO_MARKER
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.folds import HELD_PART, HeldState, get_held, put_held
from spark_jobs.lake.inherited_rows import get_inherited
from spark_jobs.lake.manifest import StagedObjects
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import put_table
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.lake.states import put_content
from spark_jobs.pipeline.coordinator_logs.consumer_offsets import (
    accepted_batches,
    fold_offsets,
    get_offsets,
    offsets_table,
    write_offsets,
)
from spark_jobs.pipeline.coordinator_logs.log_records import LogReader
from spark_jobs.pipeline.resolve.conclude import BIN
from spark_jobs.pipeline.resolve.held_batches import Holding, RunBatches, hold
from spark_jobs.pipeline.resolve.parts import Flags, part_rows
from spark_jobs.pipeline.resolve.transaction_rows import ABORTED, COMMITTED, OUTCOME_NAMES
from spark_jobs.tables.resolve import CONSUMER_OFFSETS, OUTCOMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Offsets that a broker would return, by markers alone: if all is replicated, and by the checkpoint."""

    first_unstable_offset: int | None
    last_stable_offset: int
    high_watermark: int | None
    replicated_stable_offset: int | None


def positions_of(
    parts: Rows, *, log_start_offset: int, log_end_offset: int, checkpointed: int | None
) -> Positions:
    """`parts` are the partition's transactions that are open, or were closed by a marker not long ago.

    The high watermark on disk may be outside of the log that was copied.
    """
    with_data = parts[parts["batches"] > 0]
    is_open = with_data["marker_type"] == NO_MARKER
    undecided = with_data["first_offset"][is_open].tolist()
    unstable = first_unstable_offset(undecided=undecided, log_start_offset=log_start_offset)
    stable = last_stable_offset(first_unstable=unstable, high_watermark=log_end_offset)
    if checkpointed is None:
        return Positions(
            first_unstable_offset=unstable,
            last_stable_offset=stable,
            high_watermark=None,
            replicated_stable_offset=None,
        )
    high_watermark = min(max(checkpointed, log_start_offset), log_end_offset)
    is_unreplicated = ~is_open & (with_data["marker_offset"] >= high_watermark)
    replicated = first_unstable_offset(
        undecided=undecided,
        unreplicated=with_data["first_offset"][is_unreplicated].tolist(),
        log_start_offset=log_start_offset,
    )
    return Positions(
        first_unstable_offset=unstable,
        last_stable_offset=stable,
        high_watermark=high_watermark,
        replicated_stable_offset=last_stable_offset(first_unstable=replicated, high_watermark=high_watermark),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseJob:
    """One partition: what was held before, its batches in this run, how far it goes, and the run's cut.

    `held_state` and `offsets` are digests of what earlier runs left, empty without any. `checkpointed` is the
    high watermark that a broker wrote down.
    """

    number: int
    partition: TopicPartition
    held_state: str
    has_markers: bool
    batches: RunBatches
    log_start_offset: int
    log_end_offset: int
    cut: int
    checkpointed: int | None = None
    offsets: str = ""

    @property
    def is_internal(self) -> bool:
        return self.partition.topic in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseFacts:
    """What is the same for every partition; `folder` is the key of the folder for outputs."""

    lake: ObjectStore
    folder: str
    settings: Settings


_JOB_FIELDS: "list[pa.Field[Any]]" = [
    pa.field(BIN, pa.int32(), nullable=False),
    pa.field("jobs", pa.binary(), nullable=False),
]
CLOSE_JOBS = pa.schema(_JOB_FIELDS)
"""The jobs of a bin, pickled, on their way to the worker that does them."""


def close_jobs(task: tuple[int, tuple[CloseJob, ...]]) -> Iterator[pa.Table]:
    """A row of `CLOSE_JOBS` for a bin's number and its jobs."""
    number, jobs = task
    yield pa.Table.from_pylist([{BIN: number, "jobs": to_bytes(jobs)}], CLOSE_JOBS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedPartition:
    """The result of one partition: the range to publish, positions, files, digests of what is held.

    `held` and `late` are of what earlier runs left for this one, `held_batches` is left for the next.
    """

    partition: TopicPartition
    first_offset: int
    end_offset: int
    held: tuple[str, ...]
    late: tuple[int, ...]
    positions: Positions
    undecided: int
    held_batches: int
    unsettled: int
    held_state: str
    outcomes: OutputFile | None = None
    offsets: str = ""
    consumer_offsets: OutputFile | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludedParts:
    """Rows of `PART` by first offset, and what was concluded of each."""

    parts: Rows
    outcome: npt.NDArray[np.int8]
    is_timed_out: Flags
    is_late: Flags
    is_kept: Flags
    transactional_id: "pa.ChunkedArray[Any]"

    @property
    def has_data(self) -> Flags:
        found: Flags = self.parts["batches"] > 0
        return found

    @property
    def is_undecided(self) -> Flags:
        found: Flags = self.has_data & (self.outcome != COMMITTED) & (self.outcome != ABORTED)
        return found

    @property
    def late(self) -> tuple[int, ...]:
        """First offsets of those that are published below the partition's floor."""
        return tuple(self.parts["first_offset"][self.is_late & self.has_data].tolist())

    def holding(self, cut: int) -> Holding:
        """What is held if the run publishes up to `cut`."""
        is_over = self.has_data & (self.outcome == ABORTED) & ~self.is_timed_out
        return Holding(
            cut=cut,
            aborted=self.parts["first_offset"][is_over].astype(np.int64),
            below_published=self.parts["first_offset"][self.parts["is_below_published"] != 0].astype(
                np.int64
            ),
        )

    def held_transactions(self) -> Rows:
        """Rows of `HELD_PART` for the next run."""
        kept = self.parts[self.is_kept]
        rows = np.zeros(len(kept), dtype=HELD_PART)
        for name in HELD_PART.names or ():
            rows[name] = kept[name]
        return rows

    def ends_without_marker(self) -> tuple[OffsetsMarker, ...]:
        """The ends of open ones that are decided; a timeout alone decides nothing here."""
        is_open = self.has_data & (self.parts["marker_type"] == NO_MARKER)
        chosen = is_open & ~self.is_undecided & ~self.is_timed_out
        ends = zip(self.parts["producer_id"][chosen].tolist(), self.outcome[chosen].tolist(), strict=True)
        return tuple(
            OffsetsMarker(producer_id=producer_id, is_commit=outcome == COMMITTED)
            for producer_id, outcome in ends
        )

    def table(self) -> pa.Table:
        """Rows of the table `outcomes`."""
        chosen = self.has_data
        parts = self.parts[chosen]
        names = ("first_offset", "last_offset", "producer_id", "producer_epoch", "batches", "records")
        marker = parts["marker_offset"]
        columns = {
            **{name: np.ascontiguousarray(parts[name]) for name in names},
            "transactional_id": self.transactional_id.filter(pa.array(chosen)),
            "outcome": pa.array(OUTCOME_NAMES, pa.string()).take(self.outcome[chosen]),
            "timed_out": self.is_timed_out[chosen],
            "marker_offset": pa.array(marker, mask=parts["marker_type"] == NO_MARKER),
        }
        return OUTCOMES.cast(pa.table(columns))


def concluded_parts(table: pa.Table, number: int) -> ConcludedParts:
    """The parts of one partition out of a table of `CONCLUDED_PARTS`."""
    is_own = table.column("partition").to_numpy() == number
    own = table.filter(pa.array(is_own))
    own = own.sort_by([(name, "ascending") for name in ("first_offset", "marker_offset", "producer_id")])
    return ConcludedParts(
        parts=part_rows(own),
        outcome=own.column("outcome").to_numpy(),
        is_timed_out=_flags(own, "is_timed_out"),
        is_late=_flags(own, "is_late"),
        is_kept=_flags(own, "is_kept"),
        transactional_id=own.column("transactional_id"),
    )


def _flags(table: pa.Table, name: str) -> Flags:
    found: Flags = table.column(name).combine_chunks().to_numpy(zero_copy_only=False)
    return found


def close_partitions(
    facts: CloseFacts, _: int, concluded: pa.Table, jobs: pa.Table
) -> tuple[ClosedPartition, ...]:
    """Closes each partition of a bin; `concluded` are rows of `CONCLUDED_PARTS`, `jobs` of `CLOSE_JOBS`."""
    pickled: list[Any] = jobs.column("jobs").to_pylist()
    own: tuple[CloseJob, ...] = from_bytes(pickled[0])
    return tuple(_close(facts, job, concluded_parts(concluded, job.number)) for job in own)


def _close(facts: CloseFacts, job: CloseJob, found: ConcludedParts) -> ClosedPartition:
    before = get_held(facts.lake, job.held_state)
    first, end = publish_range(job, before, _first_held(facts, before))
    after = HeldState(
        published_offset=end,
        has_markers=job.has_markers,
        transactions=found.held_transactions(),
        stretches=before.stretches
        if job.is_internal
        else hold(facts.lake, found.holding(end), before.stretches, job.batches),
    )
    offsets = _fold_offsets(facts, job, found) if job.partition.topic == OFFSETS_TOPIC else _NO_OFFSETS
    return ClosedPartition(
        partition=job.partition,
        first_offset=first,
        end_offset=end,
        held=before.held,
        late=found.late,
        positions=positions_of(
            found.parts,
            log_start_offset=job.log_start_offset,
            log_end_offset=job.log_end_offset,
            checkpointed=job.checkpointed,
        ),
        undecided=int(found.is_undecided.sum()),
        held_batches=after.held_batches,
        unsettled=len(after.transactions),
        held_state=put_held(facts.lake, after),
        outcomes=_put_outcomes(facts, job, found.table()),
        offsets=offsets.digest,
        consumer_offsets=offsets.output,
        problems=offsets.problems,
    )


def publish_range(job: CloseJob, before: HeldState, first_held: int | None) -> tuple[int, int]:
    """First offset to publish, and the end: nothing before the log's start, unless a run has held it."""
    log_start = job.log_start_offset if first_held is None else min(job.log_start_offset, first_held)
    first = max(before.published_offset, log_start)
    return first, max(job.cut, first)


def _first_held(facts: CloseFacts, before: HeldState) -> int | None:
    """The first held batch that is not below the published offset, where only timed out ones are."""
    for digest in before.held:
        offsets = get_inherited(facts.lake, digest).rows["offset"]
        held = offsets[offsets >= before.published_offset]
        if len(held):
            return int(held[0])
    return None


def _put_outcomes(facts: CloseFacts, job: CloseJob, outcomes: pa.Table) -> OutputFile | None:
    if not outcomes.num_rows:
        return None
    return put_table(facts.lake, facts.folder, OUTCOMES.file_of(partition=job.partition), outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offsets:
    """Consumer offsets that were written."""

    digest: str = ""
    output: OutputFile | None = None
    problems: tuple[str, ...] = ()


_NO_OFFSETS = _Offsets()


def _fold_offsets(facts: CloseFacts, job: CloseJob, found: ConcludedParts) -> _Offsets:
    reader = LogReader(
        staged=StagedObjects(facts.settings),
        objects={entry.order: entry for entry in job.batches.objects},
        limits=facts.settings.limits.protocol,
    )
    batches = accepted_batches(facts.lake, job.batches.key) if job.batches.key else ()
    before = get_offsets(facts.lake, job.offsets)
    folded = fold_offsets(before, batches, reader, found.ends_without_marker())
    path = CONSUMER_OFFSETS.file_of(partition=job.partition.partition)
    table = offsets_table(folded.offsets, job.partition.partition)
    return _Offsets(
        digest=put_content(facts.lake, write_offsets(folded.offsets)),
        output=put_table(facts.lake, facts.folder, path, table),
        problems=tuple(f"{job.partition}: {problem}" for problem in folded.problems),
    )
