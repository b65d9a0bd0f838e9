"""What runs in a Spark task to close a partition's night: outcomes, what waits, where it stands."""

from dataclasses import dataclass

import pyarrow as pa

from spark_jobs.config.sources import CONSUMER_OFFSETS
from spark_jobs.coordinator_logs.buckets import read_grouped
from spark_jobs.coordinator_logs.consumer_offsets import (
    accepted_batches,
    fold_offsets,
    get_offsets,
    offsets_table,
    write_offsets,
)
from spark_jobs.coordinator_logs.log_records import LogReader
from spark_jobs.resolving.carry_job import CarriedPartition, CarryJob, CarryTask
from spark_jobs.resolving.concluded_parts import ConcludedParts, concluded_parts
from spark_jobs.resolving.concluded_rows import BIN, CONCLUDED_PARTS
from spark_jobs.resolving.held_rows import hold
from spark_jobs.resolving.positions import positions_of
from spark_jobs.storage.carried_rows import get_carried
from spark_jobs.storage.parquet_file import put_table
from spark_jobs.storage.run_folder import OutputFile
from spark_jobs.storage.staged import StagedObjects
from spark_jobs.storage.state_file import put_content
from spark_jobs.storage.waiting_file import Waiting, get_waiting, put_waiting


def carry_partitions(task: CarryTask) -> tuple[CarriedPartition, ...]:
    """Closes the night of each partition; the same task again writes the same bytes."""
    concluded = read_grouped(
        task.lake, task.concluded, BIN, range(task.number, task.number + 1), schema=CONCLUDED_PARTS
    )
    return tuple(_carry(task, job, concluded_parts(concluded, job.number)) for job in task.jobs)


def _carry(task: CarryTask, job: CarryJob, found: ConcludedParts) -> CarriedPartition:
    before = get_waiting(task.lake, job.waiting)
    first, end = publish_range(job, before, _first_held(task, before))
    after = Waiting(
        published_offset=end,
        has_markers=job.has_markers,
        transactions=found.waiting(),
        stretches=before.stretches
        if job.is_internal
        else hold(task.lake, found.holding(end), before.stretches, job.batches),
    )
    offsets = _fold_offsets(task, job, found) if job.partition.topic == CONSUMER_OFFSETS else _NO_OFFSETS
    return CarriedPartition(
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
        waiting=put_waiting(task.lake, after),
        outcomes=_put_outcomes(task, job, found.table()),
        offsets=offsets.digest,
        consumer_offsets=offsets.output,
        problems=offsets.problems,
    )


def publish_range(job: CarryJob, before: Waiting, first_held: int | None) -> tuple[int, int]:
    """First offset to publish, and the end: nothing before the log's start, unless a night has held it."""
    log_start = job.log_start_offset if first_held is None else min(job.log_start_offset, first_held)
    first = max(before.published_offset, log_start)
    return first, max(job.cut, first)


def _first_held(task: CarryTask, before: Waiting) -> int | None:
    """The first held batch that is not below the published offset, where only timed out ones are."""
    for digest in before.held:
        offsets = get_carried(task.lake, digest).rows["offset"]
        waiting = offsets[offsets >= before.published_offset]
        if len(waiting):
            return int(waiting[0])
    return None


def _put_outcomes(task: CarryTask, job: CarryJob, outcomes: pa.Table) -> OutputFile | None:
    if not outcomes.num_rows:
        return None
    return put_table(task.lake, task.folder, f"outcomes/{job.partition}.parquet", outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offsets:
    """Consumer offsets that were written."""

    digest: str = ""
    output: OutputFile | None = None
    problems: tuple[str, ...] = ()


_NO_OFFSETS = _Offsets()


def _fold_offsets(task: CarryTask, job: CarryJob, found: ConcludedParts) -> _Offsets:
    reader = LogReader(
        staged=StagedObjects(task.settings),
        objects={entry.order: entry for entry in job.batches.objects},
        limits=task.settings.limits.protocol,
    )
    batches = accepted_batches(task.lake, job.batches.key) if job.batches.key else ()
    before = get_offsets(task.lake, job.offsets)
    folded = fold_offsets(before, batches, reader, found.ends_without_marker())
    path = f"consumer_offsets/{job.partition.partition:05d}.parquet"
    table = offsets_table(folded.offsets, job.partition.partition)
    return _Offsets(
        digest=put_content(task.lake, write_offsets(folded.offsets)),
        output=put_table(task.lake, task.folder, path, table),
        problems=tuple(f"{job.partition}: {problem}" for problem in folded.problems),
    )
