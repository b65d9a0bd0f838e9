"""The driver's side of folding `__transaction_state`: tasks for its partitions, and the list of timelines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from spark_jobs.config.sources import TRANSACTION_STATE
from spark_jobs.flow import Step
from spark_jobs.kafka.errors import CorruptCheckpoint
from spark_jobs.kafka.formats.checkpoints import EpochEntry, read_leader_epochs
from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.folds import folds_before
from spark_jobs.lake.index_rows import IndexedCopy
from spark_jobs.lake.manifest import BATCH_ROLES, ManifestEntry, ObjectRole, StagedObjects
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.run_folder import OutputFile, RunFolder
from spark_jobs.pipeline.context import RunContext, share_out
from spark_jobs.pipeline.coordinator_logs.log_records import LogCopy
from spark_jobs.pipeline.coordinator_logs.transaction_state import (
    FoldedPartition,
    FoldJob,
    FoldTask,
    fold_coordinator_logs,
)
from spark_jobs.sources.partitions import RunPartition
from spark_jobs.tables.rebuild import TIMELINE_FILES
from spark_jobs.tables.states import FoldKind

MOST_TASKS = 64
PARTITION_COST = 1000
"""What folding a partition costs at least, in records that could be folded meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedCoordinators:
    """The files of the fold, and sentences on what could not be read."""

    outputs: tuple[OutputFile, ...]
    records: int
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timelines:
    """What `rebuild` has folded: keys of the timelines' files, and the whole folds by partition.

    `recorded_until` is by partition the time of its newest record, where it is known.
    """

    keys: tuple[str, ...]
    folds: tuple[tuple[int, str], ...]
    rows: int
    recorded_until: Mapping[int, int]

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(partition for partition, _ in self.folds)


def fold_coordinators(run: RunContext, partitions: Sequence[RunPartition]) -> FoldedCoordinators:
    """Folds the partitions of the coordinator's log; those without new records keep their fold."""
    jobs = tuple(_jobs(run, partitions))
    costs = [PARTITION_COST + sum(copy.rows for copy in _copies(partitions, job.partition)) for job in jobs]
    tasks = [
        FoldTask(
            jobs=jobs[share.start : share.stop],
            lake=run.lake,
            folder=run.folder.key(Step.REBUILD),
            settings=run.settings,
        )
        for share in share_out(costs, MOST_TASKS)
    ]
    folded = tuple(chain.from_iterable(run.run_tasks(fold_coordinator_logs, tasks)))
    listing = put_table(run.lake, run.folder.key(Step.REBUILD), TIMELINE_FILES.file, _listing(folded))
    return FoldedCoordinators(
        outputs=(listing, *(each.output for each in folded)),
        records=sum(each.records for each in folded),
        messages=tuple(chain.from_iterable(each.problems for each in folded)),
    )


def read_timelines(folder: RunFolder) -> Timelines:
    """The timelines that `rebuild` of the run has folded."""
    rows = read_table(folder.lake, folder.key(Step.REBUILD, TIMELINE_FILES.file)).to_pylist()
    return Timelines(
        keys=tuple(folder.key(Step.REBUILD, row["file"]) for row in rows if row["rows"]),
        folds=tuple((row["partition"], row["fold"]) for row in rows),
        rows=sum(row["rows"] for row in rows),
        recorded_until={
            row["partition"]: row["newest_timestamp"]
            for row in rows
            if row["newest_timestamp"] != NO_TIMESTAMP
        },
    )


def _jobs(run: RunContext, partitions: Iterable[RunPartition]) -> Iterator[FoldJob]:
    before = {
        partition.partition: digest
        for (kind, partition), digest in folds_before(run.lake, run.chain, run.folder.inputs.state_in).items()
        if kind is FoldKind.TIMELINES
    }
    found_now = {
        each.partition.partition: each for each in partitions if each.partition.topic == TRANSACTION_STATE
    }
    staged = StagedObjects(run.settings)
    for partition in sorted({*before, *found_now}):
        found = found_now.get(partition)
        yield FoldJob(
            partition=partition,
            copies=() if found is None else tuple(_log_copy(staged, found, copy) for copy in found.copies),
            objects=() if found is None else _objects(found),
            before=before.get(partition, ""),
        )


def _copies(partitions: Iterable[RunPartition], partition: int) -> tuple[IndexedCopy, ...]:
    name = TopicPartition(TRANSACTION_STATE, partition)
    return next((each.copies for each in partitions if each.partition == name), ())


def _objects(found: RunPartition) -> tuple[ManifestEntry, ...]:
    return tuple(entry for entry in found.entries if entry.role in BATCH_ROLES)


def _log_copy(staged: StagedObjects, found: RunPartition, copy: IndexedCopy) -> LogCopy:
    own = (entry for entry in found.entries if entry.role is ObjectRole.LEADER_EPOCHS)
    same = [entry for entry in own if (entry.source, entry.directory) == (copy.source, copy.directory)]
    return LogCopy(
        indexed=copy, leader_epochs=tuple(chain.from_iterable(_epochs(staged, each) for each in same))
    )


def _epochs(staged: StagedObjects, entry: ManifestEntry) -> tuple[EpochEntry, ...]:
    try:
        return tuple(read_leader_epochs(staged.read(entry), source=f"{entry.source}/{entry.path}"))
    except CorruptCheckpoint:
        return ()  # the batches have the same epochs


def _listing(folded: Sequence[FoldedPartition]) -> pa.Table:
    rows = [
        {
            "partition": each.partition,
            "file": each.output.path,
            "fold": each.fold,
            "rows": each.rows,
            "newest_timestamp": each.newest_timestamp,
        }
        for each in folded
    ]
    return TIMELINE_FILES.cast(pa.Table.from_pylist(rows, schema=TIMELINE_FILES.schema))
