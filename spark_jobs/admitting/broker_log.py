"""A partition from copies of brokers' logs: offsets are authoritative, batches are applied, not judged.

A plain batch inside its producer's open transaction is taken like any other, since consumers see it, and told
as critical: no broker could load such a log again (facts §8.35).
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from spark_jobs.admitting.copy_chunks import CopyRules, count_misplaced, leader_epochs_of, merged_copies
from spark_jobs.admitting.job import AdmittedPartition, MisplacedBatches, PartitionJob
from spark_jobs.admitting.judging import Judged, PartitionMemory
from spark_jobs.admitting.partition import PartitionNight, TaskFiles
from spark_jobs.admitting.shared_file import gaps_table
from spark_jobs.admitting.verdict_file import SourceOf, VerdictFile
from spark_jobs.kernels.producers import Rows
from spark_jobs.kernels.replica_copies import CopySettler
from spark_jobs.protocol.checkpoint import EpochEntry, read_leader_epochs
from spark_jobs.protocol.decision import Rules
from spark_jobs.protocol.errors import CorruptCheckpoint
from spark_jobs.protocol.leader_epochs import LeaderEpochs
from spark_jobs.protocol.producer_state import AppendOrigin
from spark_jobs.storage.index_rows import is_problem, labels, values
from spark_jobs.storage.night_partitions import has_holes_by_design
from spark_jobs.storage.staged import StagedObjects
from spark_jobs.storage.state_file import PartitionState, get_state

REPLAY = Rules(origin=AppendOrigin.REPLICATION, enforce_open_transaction=False)


def admit_broker_log(job: PartitionJob, files: TaskFiles) -> AdmittedPartition:
    """Merges the copies, replays what speaks for its offsets, and reports what is missing."""
    lake = files.task.lake
    state = get_state(lake, job.state)
    settler = CopySettler(
        leader_epochs=leader_epochs_of(lake, job.copies, _checkpointed(job, files)),
        taken_epochs=state.leader_epochs,
        taken_offset=state.end_offset,
    )
    rules, memory = CopyRules(settler), PartitionMemory(state, REPLAY)
    state = state.without_producers()
    epochs = LeaderEpochs(entries=state.leader_epochs)
    misplaced: MisplacedBatches | None = None
    has_holes = has_holes_by_design(job.partition.topic, files.task.settings)
    with VerdictFile(lake, job.partition, _source_of(job)) as batches:
        night = PartitionNight(job, files, batches)
        for rows, copy in merged_copies(lake, job.copies):
            chunk, gaps, is_damaged = rules.chunk(rows, copy)
            judged, closed = memory.judge(chunk, gaps[is_damaged] if has_holes or job.is_cleaned else gaps)
            night.keep(judged, closed)
            night.gaps += 0 if has_holes else _keep_gaps(job, files, judged, gaps)
            night.staged_end_offset = max(night.staged_end_offset, _end_of(judged))
            epochs = _follow(epochs, judged)
            misplaced = count_misplaced(misplaced, rows)
        after = _state_after(state, memory, epochs, rules.end_offset)
        return replace(night.finish(state, after, memory, ()), misplaced=misplaced)


def _checkpointed(job: PartitionJob, files: TaskFiles) -> Iterator[EpochEntry]:
    """The leader epochs that the copies' checkpoints know; one that cannot be read knows none."""
    staged = StagedObjects(files.task.settings)
    for entry in job.checkpoints:
        with suppress(CorruptCheckpoint):
            yield from read_leader_epochs(staged.read(entry), source=f"{entry.source}/{entry.path}")


def _source_of(job: PartitionJob) -> SourceOf:
    """Copies are numbered, but not all numbers need be among them."""
    names = [""] * (max(copy.number for copy in job.copies) + 1)
    for copy in job.copies:
        names[copy.number] = copy.source
    return lambda judged: labels(judged.copy, names)


def _end_of(judged: Judged) -> int:
    """The offset after the last batch, whatever became of it; what is no batch has none."""
    last = values(judged.rows, "base_offset") + values(judged.rows, "last_offset_delta")
    return int(np.where(is_problem(judged.rows), -1, last).max()) + 1


def _keep_gaps(job: PartitionJob, files: TaskFiles, judged: Judged, gaps: Rows) -> int:
    if not len(gaps):
        return 0
    order, position = values(judged.rows, "object_order"), values(judged.rows, "position")
    files.gaps.add(gaps_table(job.partition, gaps, order[gaps["place"]], position[gaps["place"]]))
    return len(gaps)


def _follow(epochs: LeaderEpochs, judged: Judged) -> LeaderEpochs:
    """The leaders as the accepted batches tell them."""
    accepted = judged.is_accepted
    epoch: npt.NDArray[np.int32] = values(judged.rows, "partition_leader_epoch")[accepted]
    offset = judged.decisions.base_offset[accepted]
    changes = np.flatnonzero(np.diff(epoch, prepend=epochs.latest_epoch) != 0)
    for place in changes[epoch[changes] >= 0]:
        epochs = epochs.assign(int(epoch[place]), int(offset[place]))
    return epochs


def _state_after(
    state: PartitionState, memory: PartitionMemory, epochs: LeaderEpochs, end_offset: int
) -> PartitionState:
    return replace(
        state,
        end_offset=max(end_offset, memory.producers.end_offset),
        leader_epochs=epochs.entries,
        producers=memory.producers.rows,
        open_transactions=memory.transactions.open_transactions(),
    )
