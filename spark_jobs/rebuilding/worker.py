"""What runs in a Spark task of `rebuild`: partitions in, a state file for each."""

from dataclasses import replace

import numpy as np

from spark_jobs.config.settings import OnMissing
from spark_jobs.kernels.producers import Rows
from spark_jobs.protocol.checkpoint import EpochEntry
from spark_jobs.protocol.producer_state import AppendOrigin
from spark_jobs.rebuilding.job import Provenance, RebuildJob, RebuildTask, Rebuilt
from spark_jobs.rebuilding.seed import state_from_seed
from spark_jobs.rebuilding.snapshots import (
    is_expired,
    newest_offsets,
    newest_snapshot,
    offset_of,
    open_before,
    open_transactions_of,
)
from spark_jobs.sources.broker_files import LogStarts, read_log_starts
from spark_jobs.sources.partitions import has_holes_by_design
from spark_jobs.storage.errors import BrokenState
from spark_jobs.storage.gap_file import get_gaps
from spark_jobs.storage.inherited_rows import get_inherited
from spark_jobs.storage.staged import StagedObjects
from spark_jobs.storage.state_file import PartitionState, get_state, put_state
from spark_jobs.tables.rebuild import StateOrigin

NOTHING_KNOWN = "starts without any state; no producer is known, and the first sequence of each is taken"


def rebuild_partitions(task: RebuildTask) -> tuple[Rebuilt, ...]:
    """The state that each partition starts from; the same task again writes the same files."""
    return tuple(_rebuild(job, task) for job in task.jobs)


def _rebuild(job: RebuildJob, task: RebuildTask) -> Rebuilt:
    before = get_state(task.lake, job.state) if job.state else None
    found, provenance = _find(job, task, before)
    found, provenance = _with_topic_id(found, job), _with_remark(provenance, found, job)
    state = _expire_idle(found, task) if job.has_news else found
    return Rebuilt(
        partition=job.partition,
        state=job.state if state is before else put_state(task.lake, state),
        run_id=job.run_id,
        provenance=provenance,
        producers=len(state.producers),
        expired=len(found.producers) - len(state.producers),
        inherited=(
            *get_inherited(task.lake, state.parked).objects,
            *get_gaps(task.lake, state.gaps).held_objects(task.lake),
        ),
    )


def _find(
    job: RebuildJob, task: RebuildTask, before: PartitionState | None
) -> tuple[PartitionState, Provenance]:
    if before is not None:
        return _from_chain(job, task, before)
    if job.origin is AppendOrigin.REPLICATION:
        return _from_first_snapshot(job, task, begin=_missing_from(job, task))
    if job.seeds:
        return state_from_seed(job, task)
    state = PartitionState(leader_epochs=(EpochEntry(epoch=0, start_offset=0),))
    return state, Provenance(origin=StateOrigin.EMPTY, message=NOTHING_KNOWN)


def _with_topic_id(state: PartitionState, job: RebuildJob) -> PartitionState:
    """A state whose topic id is unknown adopts the staged one; a known one stays.

    `stage` gives every topic id a log of its own, so that two of them here would be a mistake in Onceover.
    """
    if job.topic_id in ("", state.topic_id):
        return state
    if state.topic_id:
        raise BrokenState(
            f"{job.partition}: its state has the topic id {state.topic_id}, its staged log {job.topic_id}; "
            "two logs are never merged"
        )
    return replace(state, topic_id=job.topic_id)


def _with_remark(provenance: Provenance, state: PartitionState, job: RebuildJob) -> Provenance:
    """A copy that does not say its topic id is taken for the known one, and that is reported."""
    is_said = job.topic_id or not state.topic_id or job.origin is AppendOrigin.CLIENT
    if is_said or provenance.message is not None:
        return provenance
    message = f"no readable partition.metadata; taken for topic id {state.topic_id} of earlier runs"
    return replace(provenance, message=message)


def _from_chain(
    job: RebuildJob, task: RebuildTask, before: PartitionState
) -> tuple[PartitionState, Provenance]:
    """What the last run left; if the log begins only after it, a snapshot there knows more."""
    if job.origin is AppendOrigin.CLIENT:
        return before, Provenance(origin=StateOrigin.CHAIN)
    state = before
    if get_gaps(task.lake, before.gaps).open:
        # What is held is not deleted with the broker's log: it is published once the gap is filled.
        return before, Provenance(origin=StateOrigin.CHAIN)
    if job.log_start_offset > before.log_start_offset:
        state = replace(before, log_start_offset=job.log_start_offset)
    if job.first_offset <= state.end_offset or _holds(job, task):
        return state, Provenance(origin=StateOrigin.CHAIN)
    missing = f"offsets {state.end_offset} to {job.first_offset - 1} are in no staged log"
    found, provenance = _from_first_snapshot(job, task)
    if provenance.origin is not StateOrigin.SNAPSHOT:
        state = replace(state, open_transactions=_joined(state.open_transactions, found.open_transactions))
        return state, Provenance(origin=StateOrigin.CHAIN, skipped=provenance.skipped, message=missing)
    opened = _with_details(found.open_transactions, state.open_transactions)
    after = replace(state, producers=found.producers, open_transactions=opened)
    return after, replace(provenance, message=missing)


def _holds(job: RebuildJob, task: RebuildTask) -> bool:
    """Whether what is staged has to wait for offsets before it: the broker has not deleted them all."""
    topic = job.partition.topic
    if task.settings.topic(topic).gaps is not OnMissing.HOLD or has_holes_by_design(topic, task.settings):
        return False
    return _log_starts(job, task).proven < job.first_offset


def _log_starts(job: RebuildJob, task: RebuildTask) -> LogStarts:
    return read_log_starts(
        job.first_segments,
        job.checkpoints,
        StagedObjects(task.settings),
        log_start_offset=job.log_start_offset,
    )


def _missing_from(job: RebuildJob, task: RebuildTask) -> int:
    """Where the log begins that the first segments were copied of: not later than they do."""
    if not job.first_offset or has_holes_by_design(job.partition.topic, task.settings):
        return job.first_offset
    begin = _log_starts(job, task).missing_from
    return job.first_offset if begin is None else min(begin, job.first_offset)


def _from_first_snapshot(
    job: RebuildJob, task: RebuildTask, *, begin: int | None = None
) -> tuple[PartitionState, Provenance]:
    """The state at the first staged offset, so that every staged batch can be replayed onto it.

    A log that began before, at `begin`, lacks its first segments: the state is that of its beginning.
    """
    begin = job.first_offset if begin is None else begin
    holds = task.settings.topic(job.partition.topic).gaps is OnMissing.HOLD
    at = begin if holds else job.first_offset
    entries = (entry for entry in job.snapshots if offset_of(entry) == at)
    found = newest_snapshot(entries, StagedObjects(task.settings))
    log_start_offset = max(begin, job.log_start_offset)
    state = PartitionState(
        log_start_offset=log_start_offset,
        end_offset=begin,
        published_offset=log_start_offset,
        producers=found.producers,
        open_transactions=open_transactions_of(found.producers),
    )
    if found.name is not None:
        return state, Provenance(
            origin=StateOrigin.SNAPSHOT,
            snapshot=found.name,
            snapshot_offset=found.offset,
            skipped=found.skipped,
        )
    is_whole = at == 0 and not found.skipped
    older = open_before(job.snapshots, at, StagedObjects(task.settings)) if at else found.producers
    state = replace(
        state, producers=older[newest_offsets(older) < at], open_transactions=open_transactions_of(older)
    )
    return state, Provenance(
        origin=StateOrigin.EMPTY, skipped=found.skipped, message=None if is_whole else NOTHING_KNOWN
    )


def _joined(known: Rows, newer: Rows) -> Rows:
    """`known` open transactions and `newer` ones; of one producer the newer."""
    others = known[~np.isin(known["producer_id"], newer["producer_id"])]
    rows = np.concatenate((others, newer))
    return rows[np.argsort(rows["first_offset"])]


def _with_details(opened: Rows, known: Rows) -> Rows:
    """`opened`, each as `known` if that is the same transaction."""
    rows = opened.copy()
    same = {(int(row["producer_id"]), int(row["first_offset"])): row for row in known}
    for place, row in enumerate(opened):
        rows[place] = same.get((int(row["producer_id"]), int(row["first_offset"])), row)
    return rows


def _expire_idle(state: PartitionState, task: RebuildTask) -> PartitionState:
    """A broker looks every ten minutes by its clock, a run once, at the start of its day (facts §2.10).

    So a producer whose time ran out during the day is still known, and a gap in its sequences still refused.
    One of whose batches some wait is not forgotten: they would no longer know for what.
    """
    expired = is_expired(
        state.producers, now=task.day_start, expiration_ms=task.settings.kafka.producer_id_expiration_ms
    )
    waited_for = [get_inherited(task.lake, state.parked).rows["producer_id"]]
    waited_for += (held.rows["producer_id"] for held in get_gaps(task.lake, state.gaps).held_rows(task.lake))
    kept = ~expired | np.isin(state.producers["producer_id"], np.concatenate(waited_for))
    return state if kept.all() else replace(state, producers=state.producers[kept])
