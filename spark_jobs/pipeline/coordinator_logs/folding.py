"""Folds `__transaction_state`: what a Spark task does, then the driver's side."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from struct import Struct

import pyarrow as pa

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import TRANSACTION_STATE
from spark_jobs.flow import Step
from spark_jobs.kafka.coordinator.history import (
    CoordinatorEntry,
    CoordinatorRecord,
    UnreadableRecord,
    read_entries,
)
from spark_jobs.kafka.coordinator.timeline import IdTimeline, timeline
from spark_jobs.kafka.errors import CorruptCheckpoint, CorruptCoordinatorRecord
from spark_jobs.kafka.formats.checkpoints import EpochEntry, read_leader_epochs
from spark_jobs.kafka.formats.record_batch import NO_TIMESTAMP
from spark_jobs.kafka.formats.records import LogRecord
from spark_jobs.kafka.formats.transaction_state import (
    FLEXIBLE_VALUE_VERSION,
    TransactionLogKey,
    TransactionLogValue,
    TransactionState,
    UnknownKey,
    read_key,
    read_value,
)
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.folds import folds_before
from spark_jobs.lake.index_rows import IndexedCopy
from spark_jobs.lake.layout import state_key
from spark_jobs.lake.manifest import BATCH_ROLES, ManifestEntry, ObjectRole, StagedObjects
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.run_folder import OutputFile, RunFolder
from spark_jobs.lake.states import get_content, put_content
from spark_jobs.pipeline.context import RunContext, share_out
from spark_jobs.pipeline.coordinator_logs.log_records import (
    LogCopy,
    LogReader,
    LogRecords,
    LogRows,
    rows_of_log,
)
from spark_jobs.pipeline.coordinator_logs.timelines import (
    CoordinatorFold,
    gc_paused,
    read_fold,
    timelines_table,
    write_fold,
)
from spark_jobs.sources.partitions import RunPartition
from spark_jobs.tables.rebuild import TIMELINE_FILES, TIMELINES
from spark_jobs.tables.states import FoldKind

# What a Spark task does: it writes the timelines of partitions. The log repeats ids with each transaction,
# and lists of partitions with each state, so a fast reader caches both. What it cannot read goes to the
# reader of `kafka.formats.transaction_state`, which alone defines errors.

MOST_PROBLEMS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldJob:
    """One partition of the coordinator's log: its copies, their objects, and its fold of the run before."""

    partition: int
    copies: tuple[LogCopy, ...] = ()
    objects: tuple[ManifestEntry, ...] = ()
    before: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldTask:
    """Some partitions for one worker; `folder` is the key of the step's folder in the lake."""

    jobs: tuple[FoldJob, ...]
    lake: ObjectStore
    folder: str
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedPartition:
    """A fold: its file of timelines, its digest, how much there was to read, and what could not be.

    `newest_timestamp` is the time of its newest record, -1 if it is not known.
    """

    partition: int
    output: OutputFile
    fold: str
    rows: int
    records: int
    newest_timestamp: int
    problems: tuple[str, ...] = ()


def fold_coordinator_logs(task: FoldTask) -> tuple[FoldedPartition, ...]:
    """Folds each partition; the same task again writes the same bytes."""
    with gc_paused():
        return tuple(_fold_partition(task, job) for job in task.jobs)


def get_fold(lake: ObjectStore, digest: str) -> CoordinatorFold:
    """The fold of that name; an empty one for no name."""
    if not digest:
        return CoordinatorFold()
    return read_fold(get_content(lake, digest), source=lake.url_of(state_key(digest)))


def _fold_partition(task: FoldTask, job: FoldJob) -> FoldedPartition:
    before = get_fold(task.lake, job.before)
    log = rows_of_log(task.lake, job.copies, end_offset=before.end_offset, taken_epochs=before.leader_epochs)
    reader = LogReader(
        staged=StagedObjects(task.settings),
        objects={entry.order: entry for entry in job.objects},
        limits=task.settings.limits.protocol,
    )
    found = FoldProblems(name=f"{TRANSACTION_STATE}-{job.partition}")
    found.note_replaced(log)
    known = fold_records(before.timelines, reader.read(log.rows), found)
    after = CoordinatorFold(
        end_offset=log.end_offset,
        newest_timestamp=max(before.newest_timestamp, log.newest_timestamp),
        leader_epochs=log.leader_epochs,
        timelines=known,
        completed=before.completed,
        expired=_expired(known, before),
    )
    table = timelines_table(after, job.partition, folded_before=before.end_offset)
    return FoldedPartition(
        partition=job.partition,
        output=put_table(task.lake, task.folder, TIMELINES.file_of(partition=job.partition), table),
        fold=put_content(task.lake, write_fold(after)),
        rows=table.num_rows,
        records=found.records,
        newest_timestamp=after.newest_timestamp,
        problems=tuple(found.problems),
    )


@dataclass(slots=True)
class FoldProblems:
    """How many records were read, and some of what was wrong."""

    name: str
    records: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, problem: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(f"{self.name}: {problem}")

    def note_replaced(self, log: LogRows) -> None:
        if log.replaced:
            self.add(
                f"offsets from {log.replaced[0]} on were folded by an earlier run, but a newer leader has "
                "written others there since: outcomes that depend on them may be wrong"
            )


def _expired(known: Mapping[str, IdTimeline], before: CoordinatorFold) -> frozenset[str]:
    """Ids whose last record is a tombstone: of this run, or one of before that nothing has followed."""
    return frozenset(
        transactional_id
        for transactional_id, each in known.items()
        if isinstance(each.current, CoordinatorRecord)
        and each.current.value is None
        and (each.current.offset >= before.end_offset or transactional_id in before.expired)
    )


def fold_records(
    before: Mapping[str, IdTimeline], log: Iterable[LogRecords], found: FoldProblems
) -> dict[str, IdTimeline]:
    """The timelines after the records of `log`, piece by piece."""
    known = dict(before)
    for piece in log:
        for transactional_id, entries in _by_id(piece, found).items():
            known[transactional_id] = timeline(transactional_id, entries, before=known.get(transactional_id))
    return known


def _by_id(piece: LogRecords, found: FoldProblems) -> dict[str, list[CoordinatorEntry]]:
    grouped: dict[str, list[CoordinatorEntry]] = {}
    if piece.problem:
        found.add(piece.problem)
    for entry in _entries(piece, found):
        grouped.setdefault(entry.transactional_id, []).append(entry)
    return grouped


def _entries(piece: LogRecords, found: FoldProblems) -> Iterator[CoordinatorEntry]:
    """The records as entries; one that cannot be read is skipped, not its whole batch."""
    if piece.header.is_control:
        return
    found.records += len(piece.records)
    epoch = piece.header.partition_leader_epoch
    for record in piece.records:
        try:
            entry = _entry(record, epoch, found.name)
        except CorruptCoordinatorRecord:
            yield from _plain_entry(piece, record, found)
        else:
            if entry is not None:
                yield entry


def _entry(record: LogRecord, coordinator_epoch: int, name: str) -> CoordinatorRecord | None:
    """A readable record as entry; None if its key is of another type."""
    key = key_of(record.key or b"")
    if not isinstance(key, TransactionLogKey):
        return None
    return CoordinatorRecord(
        transactional_id=key.transactional_id,
        offset=record.offset,
        coordinator_epoch=coordinator_epoch,
        value=None if record.value is None else value_of(record.value, source=name),
    )


def _plain_entry(piece: LogRecords, record: LogRecord, found: FoldProblems) -> Iterator[CoordinatorEntry]:
    """Entries by the plain reader, of a record that the fast one cannot read."""
    try:
        for entry in read_entries(piece.header, (record,), source=found.name):
            if isinstance(entry, UnreadableRecord):
                found.add(entry.problem)
            yield entry
    except CorruptCoordinatorRecord as error:
        found.add(str(error))


_HEAD = Struct(">hqhib")
_TIMES = Struct(">qq")
_STATES = tuple(TransactionState)
_CACHED = 1 << 16
_ONE_BYTE = 0x7F


@lru_cache(maxsize=_CACHED)
def key_of(data: bytes) -> TransactionLogKey | UnknownKey:
    """`read_key`, cached."""
    return read_key(data)


def value_of(data: bytes, *, source: str) -> TransactionLogValue:
    """`read_value`; the part between the fixed fields is cached."""
    if len(data) <= _HEAD.size:
        return read_value(data, source=source)
    version, producer_id, producer_epoch, timeout_ms, status = _HEAD.unpack_from(data)
    times = _end_of_partitions(data) if version == FLEXIBLE_VALUE_VERSION else None
    if times is None or not 0 <= status < len(_STATES) or len(data) <= times + _TIMES.size:
        return read_value(data, source=source)
    last_update_ms, start_ms = _TIMES.unpack_from(data, times)
    like = _like(data[_HEAD.size : times], data[times + _TIMES.size :])
    if like is None:
        return read_value(data, source=source)
    return TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_timeout_ms=timeout_ms,
        transaction_status=_STATES[status],
        transaction_partitions=like.transaction_partitions,
        transaction_last_update_timestamp_ms=last_update_ms,
        transaction_start_timestamp_ms=start_ms,
        previous_producer_id=like.previous_producer_id,
        next_producer_id=like.next_producer_id,
        client_transaction_version=like.client_transaction_version,
        next_producer_epoch=like.next_producer_epoch,
        unknown_tags=like.unknown_tags,
    )


def _end_of_partitions(data: bytes) -> int | None:
    """Where the list of partitions ends, if each length in it takes one byte and no topic has tags."""
    position, topics = _HEAD.size + 1, data[_HEAD.size]
    if topics > _ONE_BYTE:
        return None
    try:
        for _ in range(topics - 1):
            name = data[position]
            position += name
            partitions = data[position]
            position += 4 * partitions - 3
            if not (0 < name <= _ONE_BYTE and 0 < partitions <= _ONE_BYTE) or data[position]:
                return None
            position += 1
    except IndexError:
        return None
    return position


@lru_cache(maxsize=_CACHED)
def _like(partitions: bytes, tags: bytes) -> TransactionLogValue | None:
    """A value with these partitions and tags; None if a plain reader refuses it."""
    head = _HEAD.pack(FLEXIBLE_VALUE_VERSION, 0, 0, 0, TransactionState.ONGOING)
    try:
        return read_value(head + partitions + _TIMES.pack(0, 0) + tags)
    except CorruptCoordinatorRecord:
        return None


# The driver's side: tasks for the partitions of the log, and the list of timelines.

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
