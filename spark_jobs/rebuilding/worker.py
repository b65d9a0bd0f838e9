"""What runs in a Spark task of `rebuild`: partitions in, a state file for each."""

from dataclasses import replace

import numpy as np

from spark_jobs.config.sources import SourceKind
from spark_jobs.kernels.producers import Rows
from spark_jobs.protocol.checkpoint import EpochEntry
from spark_jobs.rebuilding.job import Provenance, RebuildJob, RebuildTask, Rebuilt
from spark_jobs.rebuilding.seed import state_from_seed
from spark_jobs.rebuilding.snapshots import is_expired, newest_snapshot, offset_of, open_transactions_of
from spark_jobs.storage.carried_rows import get_carried
from spark_jobs.storage.staged import StagedObjects
from spark_jobs.storage.state_file import PartitionState, get_state, put_state
from spark_jobs.tables.state_origins import StateOrigin

NOTHING_KNOWN = "starts without any state; no producer is known, and the first sequence of each is taken"


def rebuild_partitions(task: RebuildTask) -> tuple[Rebuilt, ...]:
    """The state that each partition starts from; the same task again writes the same files."""
    return tuple(_rebuild(job, task) for job in task.jobs)


def _rebuild(job: RebuildJob, task: RebuildTask) -> Rebuilt:
    before = get_state(task.lake, job.state) if job.state else None
    found, provenance = _find(job, task, before)
    state = _forget_idle(found, task) if job.has_news else found
    return Rebuilt(
        partition=job.partition,
        state=job.state if state is before else put_state(task.lake, state),
        run_id=job.run_id,
        provenance=provenance,
        producers=len(state.producers),
        expired=len(found.producers) - len(state.producers),
        carried=get_carried(task.lake, state.parked).objects,
    )


def _find(
    job: RebuildJob, task: RebuildTask, before: PartitionState | None
) -> tuple[PartitionState, Provenance]:
    if before is not None:
        return _from_chain(job, task, before)
    if job.kind is SourceKind.BROKER_LOG:
        return _from_first_snapshot(job, task)
    if job.seeds:
        return state_from_seed(job, task)
    state = PartitionState(leader_epochs=(EpochEntry(epoch=0, start_offset=0),))
    return state, Provenance(origin=StateOrigin.EMPTY, message=NOTHING_KNOWN)


def _from_chain(
    job: RebuildJob, task: RebuildTask, before: PartitionState
) -> tuple[PartitionState, Provenance]:
    """What the last night left; if the log begins only after it, a snapshot there knows more."""
    if job.kind is SourceKind.CAPTURE:
        return before, Provenance(origin=StateOrigin.CHAIN)
    state = before
    if job.log_start_offset > before.log_start_offset:
        state = replace(before, log_start_offset=job.log_start_offset)
    if job.first_offset <= state.end_offset:
        return state, Provenance(origin=StateOrigin.CHAIN)
    missing = f"offsets {state.end_offset} to {job.first_offset - 1} are in no staged log"
    found, provenance = _from_first_snapshot(job, task)
    if provenance.origin is not StateOrigin.SNAPSHOT:
        return state, Provenance(origin=StateOrigin.CHAIN, skipped=provenance.skipped, message=missing)
    opened = _with_details(found.open_transactions, state.open_transactions)
    after = replace(state, producers=found.producers, open_transactions=opened)
    return after, replace(provenance, message=missing)


def _from_first_snapshot(job: RebuildJob, task: RebuildTask) -> tuple[PartitionState, Provenance]:
    """The state at the first staged offset, so that every staged batch can be replayed onto it."""
    entries = (entry for entry in job.snapshots if offset_of(entry) == job.first_offset)
    found = newest_snapshot(entries, StagedObjects(task.settings))
    log_start_offset = max(job.first_offset, job.log_start_offset)
    state = PartitionState(
        log_start_offset=log_start_offset,
        end_offset=job.first_offset,
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
    is_whole = job.first_offset == 0 and not found.skipped
    return state, Provenance(
        origin=StateOrigin.EMPTY, skipped=found.skipped, message=None if is_whole else NOTHING_KNOWN
    )


def _with_details(opened: Rows, known: Rows) -> Rows:
    """`opened`, each as `known` if that is the same transaction."""
    rows = opened.copy()
    same = {(int(row["producer_id"]), int(row["first_offset"])): row for row in known}
    for place, row in enumerate(opened):
        rows[place] = same.get((int(row["producer_id"]), int(row["first_offset"])), row)
    return rows


def _forget_idle(state: PartitionState, task: RebuildTask) -> PartitionState:
    """A broker looks every ten minutes by its clock, a night once, at the start of its day (facts §2.10).

    So a producer whose time ran out during the day is still known, and a gap in its sequences still refused.
    One of whose batches some wait is not forgotten: they would no longer know for what.
    """
    expired = is_expired(
        state.producers, now=task.day_start, expiration_ms=task.settings.kafka.producer_id_expiration_ms
    )
    waited_for = get_carried(task.lake, state.parked).rows["producer_id"]
    kept = ~expired | np.isin(state.producers["producer_id"], waited_for)
    return state if kept.all() else replace(state, producers=state.producers[kept])
