"""What a Spark task of `rebuild` does: it writes the state file that each partition starts from."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.config.settings import OnMissing
from spark_jobs.kafka.errors import CorruptSnapshot
from spark_jobs.kafka.formats.checkpoints import EpochEntry
from spark_jobs.kafka.formats.log_files import parse_file_name
from spark_jobs.kafka.formats.tier_files import parse_tier_name
from spark_jobs.kafka.producers.producer_state import NO_OFFSET, AppendOrigin
from spark_jobs.kafka.producers.verdict import LOG_REPLAY
from spark_jobs.kernels.admission import fold
from spark_jobs.kernels.partition_transactions import NO_MARKER, TRANSACTION, TransactionTable
from spark_jobs.kernels.producers import PRODUCER, ProducerTable, Rows, read_snapshot
from spark_jobs.lake.errors import BrokenState, StorageError
from spark_jobs.lake.gap_file import get_gaps
from spark_jobs.lake.index_rows import PLACE_COLUMNS, IndexedCopy, batches_of, is_problem, iter_log, values
from spark_jobs.lake.inherited_rows import get_inherited
from spark_jobs.lake.manifest import ManifestEntry, StagedObjects
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.states import PartitionState, get_state, put_state
from spark_jobs.pipeline.rebuild.job import Provenance, RebuildJob, RebuildTask, Rebuilt
from spark_jobs.sources.broker_files import LogStarts, read_log_starts
from spark_jobs.sources.partitions import has_holes_by_design
from spark_jobs.tables.rebuild import StateOrigin

# Producer snapshots that were staged with a log.


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSnapshot:
    """The producers before `offset`; without a `name` there was none, and nothing is known."""

    offset: int = 0
    name: str | None = None
    producers: Rows
    skipped: tuple[str, ...] = ()


def offset_of(entry: ManifestEntry) -> int:
    """The offset in a segment file's name; of a snapshot, where its state ends."""
    if entry.state_offset:
        return entry.state_offset
    file = parse_file_name(entry.name) or parse_tier_name(entry.name)
    return NO_OFFSET if file is None else file.offset


def newest_snapshot(entries: Iterable[ManifestEntry], staged: StagedObjects) -> FoundSnapshot:
    """The newest of `entries` that can be read, and why newer ones cannot."""
    skipped: list[str] = []
    for entry in sorted(entries, key=lambda entry: (-offset_of(entry), entry.path)):
        name = f"{entry.source}/{entry.path}"
        try:
            producers = _last_of_each(read_snapshot(staged.read(entry), source=name))
        except (CorruptSnapshot, StorageError) as error:
            if error.transient:
                raise
            skipped.append(str(error))
            continue
        return FoundSnapshot(offset=offset_of(entry), name=name, producers=producers, skipped=tuple(skipped))
    return FoundSnapshot(producers=np.empty(0, dtype=PRODUCER), skipped=tuple(skipped))


def _last_of_each(producers: Rows) -> Rows:
    """A producer that is there twice is the last one, as in a broker's map."""
    _, backwards = np.unique(producers["producer_id"][::-1], return_index=True)
    return producers[np.sort(len(producers) - 1 - backwards)]


def is_expired(producers: Rows, *, now: int, expiration_ms: int) -> npt.NDArray[np.bool_]:
    """Which ones a broker would have expired: idle for so long, and in no transaction (facts §2.10)."""
    is_idle = now - producers["last_timestamp"] >= expiration_ms
    expired: npt.NDArray[np.bool_] = is_idle & (producers["txn_first_offset"] == NO_OFFSET)
    return expired


def open_before(entries: Iterable[ManifestEntry], offset: int, staged: StagedObjects) -> Rows:
    """The producers that the newest snapshot behind `offset` knows in transactions that began before it.

    A broker keeps such a transaction though all of its batches may be deleted: its last stable offset stays
    at the log start (facts §2.12, §8.20). What is open at the snapshot was open at `offset`, too.
    """
    producers = newest_snapshot((entry for entry in entries if offset_of(entry) > offset), staged).producers
    first = producers["txn_first_offset"]
    older: Rows = producers[(first != NO_OFFSET) & (first < offset)]
    return older


def idle_before(entries: Iterable[ManifestEntry], offset: int, staged: StagedObjects) -> FoundSnapshot:
    """The newest uploaded snapshot behind `offset`, with the producers alone that wrote nothing since.

    A broker's directory keeps the snapshot of its first segment. In tiered storage that one is beside the
    segment before, and deleted with it (facts §1.15).
    """
    later = (entry for entry in entries if entry.state_offset and offset_of(entry) > offset)
    found = newest_snapshot(later, staged)
    newest = newest_offsets(found.producers)
    is_idle = (newest != NO_OFFSET) & (newest < offset) & (found.producers["txn_first_offset"] == NO_OFFSET)
    return replace(found, producers=found.producers[is_idle])


def _others(producers: Rows, known: Rows) -> Rows:
    """Those that are not `known`."""
    others: Rows = producers[~np.isin(producers["producer_id"], known["producer_id"])]
    return others


def newest_offsets(producers: Rows) -> npt.NDArray[np.int64]:
    """The last offset of each producer's newest batch, `NO_OFFSET` without any."""
    newest = (producers["oldest"] + np.maximum(producers["batches"], 1) - 1)[:, np.newaxis] % 5
    last_offset = np.take_along_axis(producers["last_offset"], newest, axis=1)[:, 0]
    return np.where(producers["batches"] > 0, last_offset, NO_OFFSET)


def open_transactions_of(producers: Rows) -> Rows:
    """The open transactions of a snapshot: it stores where they begin; each has one batch at least."""
    is_open = producers["txn_first_offset"] != NO_OFFSET
    opened = producers[is_open]
    rows = np.zeros(len(opened), dtype=TRANSACTION)
    last_offset = newest_offsets(opened)
    rows["producer_id"] = opened["producer_id"]
    rows["first_offset"] = opened["txn_first_offset"]
    rows["last_offset"] = np.where(last_offset != NO_OFFSET, last_offset, opened["txn_first_offset"])
    rows["batches"] = 1
    rows["first_timestamp"] = rows["last_timestamp"] = opened["last_timestamp"]
    rows["producer_epoch"] = rows["first_epoch"] = opened["producer_epoch"]
    rows["began_before"] = 1
    rows["gap_first_offset"] = rows["gap_last_offset"] = NO_OFFSET
    for name in ("marker_type", "marker_offset", "marker_epoch", "coordinator_epoch", "marker_timestamp"):
        rows[name] = NO_MARKER
    return rows[np.argsort(rows["first_offset"])]


# The state of a captured partition from a broker's log: the newest good snapshot, then the log's tail.

OFFSETS = [*PLACE_COLUMNS, "partition_leader_epoch"]


def state_from_seed(job: RebuildJob, task: RebuildTask) -> tuple[PartitionState, Provenance]:
    """The state at the end of the furthest of the job's seeds; Onceover's own log begins there."""
    copy = max(job.seeds, key=lambda copy: (*_reach(task.lake, copy), -copy.number))
    leader_epoch, end_offset = _reach(task.lake, copy)
    own = [
        entry for entry in job.snapshots if (entry.source, entry.directory) == (copy.source, copy.directory)
    ]
    found = newest_snapshot(
        (entry for entry in own if offset_of(entry) <= end_offset), StagedObjects(task.settings)
    )
    expiration_ms = task.settings.kafka.producer_id_expiration_ms
    kept = found.producers[~is_expired(found.producers, now=task.day_start, expiration_ms=expiration_ms)]
    producers, transactions = ProducerTable(kept), TransactionTable(open_transactions_of(kept))
    first: int | None = None
    for rows in _tail(task.lake, copy, found.offset):
        batches = batches_of(rows)
        transactions.track(batches, fold(batches, producers, rules=LOG_REPLAY))
        first = int(batches.base_offset[0]) if first is None else first
    state = PartitionState(
        log_start_offset=end_offset,
        end_offset=end_offset,
        published_offset=end_offset,
        leader_epochs=(EpochEntry(epoch=leader_epoch + 1, start_offset=end_offset),),
        producers=producers.rows,
        open_transactions=transactions.open_transactions(),
    )
    return state, Provenance(
        origin=StateOrigin.SEED,
        snapshot=found.name,
        snapshot_offset=found.offset if found.name else None,
        tail_first_offset=first,
        tail_last_offset=None if first is None else end_offset - 1,
        skipped=found.skipped,
    )


def _reach(lake: ObjectStore, copy: IndexedCopy) -> tuple[int, int]:
    """(newest leader epoch, end offset) of what an unclean recovery would keep of the copy."""
    epoch, end_offset = -1, 0
    for rows in _until_problem(iter_log(lake, copy, columns=OFFSETS)):
        epoch = max(epoch, int(values(rows, "partition_leader_epoch").max()))
        end_offset = int(values(rows, "base_offset")[-1] + values(rows, "last_offset_delta")[-1]) + 1
    return epoch, end_offset


def _tail(lake: ObjectStore, copy: IndexedCopy, offset: int) -> Iterator[pa.RecordBatch]:
    """The batches from the one that holds `offset` on (facts §2.12)."""
    for rows in _until_problem(iter_log(lake, copy)):
        last = values(rows, "base_offset") + values(rows, "last_offset_delta")
        start = int(np.searchsorted(last, offset))
        if start < rows.num_rows:
            yield rows.slice(start)


def _until_problem(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for rows in chunks:
        problems = np.flatnonzero(is_problem(rows))
        good = rows.slice(0, int(problems[0])) if len(problems) else rows
        if good.num_rows:
            yield good
        if len(problems):
            return


# All partitions.

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
    """A copy without a topic id counts as the known topic; the message reports it."""
    is_known = job.topic_id or not state.topic_id or job.origin is AppendOrigin.CLIENT
    if is_known or provenance.message is not None:
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
    """Whether missing offsets hold what is staged: the broker has not deleted them all."""
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
    uploaded = idle_before(job.snapshots, at, StagedObjects(task.settings)) if at else found
    if uploaded.name is not None:
        producers = np.concatenate((state.producers, _others(uploaded.producers, state.producers)))
        return replace(state, producers=producers), Provenance(
            origin=StateOrigin.SNAPSHOT,
            snapshot=uploaded.name,
            snapshot_offset=uploaded.offset,
            skipped=(*found.skipped, *uploaded.skipped),
            message=f"no snapshot at offset {at}; a later one has the producers that were idle since",
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
    """Expires idle producers at the start of the run's day; a broker does so every ten minutes (facts §2.10).

    So a producer that expires during the day is still known, and a gap in its sequences is still refused.
    A producer with parked or held batches does not expire: they still need its sequence.
    """
    expired = is_expired(
        state.producers, now=task.day_start, expiration_ms=task.settings.kafka.producer_id_expiration_ms
    )
    needed = [get_inherited(task.lake, state.parked).rows["producer_id"]]
    needed += (held.rows["producer_id"] for held in get_gaps(task.lake, state.gaps).held_rows(task.lake))
    kept = ~expired | np.isin(state.producers["producer_id"], np.concatenate(needed))
    return state if kept.all() else replace(state, producers=state.producers[kept])
