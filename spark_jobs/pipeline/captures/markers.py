"""Markers from the coordinator's log, for captured partitions without markers.

A marker goes right behind the last batch of its transaction on the partition, and behind rejected retries
with the same epoch before anything of the next one was taken: a retry is a duplicate then, and not fenced.
Where it is not clear which transaction a batch belongs to, no marker is given to its producer from there
on: what is unclear stays open, and is held.

Where a marker goes follows from the verdicts, and offsets follow from the markers. So `rebuild` judges the
batches of producers that the coordinator knows, to place their markers, and `admit` judges every batch of the
partition once, with all markers, and gives offsets. Verdicts of `rebuild` cannot be taken over: a marker has
an offset and moves its producer's epoch, so the fold has to see them in order. Only for a producer that also
sends non-transactional batches can its markers change its own verdicts: such producers, and no others, are
judged again until their markers no longer change.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.kafka.coordinator.timeline import CoordinatorTransaction
from spark_jobs.kafka.coordinator.transaction_metadata import TransactionResult
from spark_jobs.kafka.formats.record_batch import CONTROL_FLAG, MAGIC_V2, TRANSACTIONAL_FLAG
from spark_jobs.kafka.producers.verdict import VERDICTS, Verdict
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.matching import Candidates, candidates, match_batches
from spark_jobs.kafka.transactions.partition_transactions import PartitionTransaction
from spark_jobs.kernels.partition_transactions import NO_MARKER
from spark_jobs.kernels.producers import Rows
from spark_jobs.lake.folds import get_held, has_markers, resolved_before
from spark_jobs.lake.index_rows import is_problem, iter_index, values
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.parquet_file import put_table, read_table
from spark_jobs.lake.run_folder import OutputFile
from spark_jobs.pipeline.captures.judge import CapturedPartition, JudgedRows, judge_producers
from spark_jobs.pipeline.context import RunContext, share_out
from spark_jobs.pipeline.coordinator_logs.folding import read_timelines
from spark_jobs.pipeline.coordinator_logs.timelines import transactions_in
from spark_jobs.sources.partitions import RunPartition
from spark_jobs.tables.rebuild import MARKER_FILES, MARKERS

# The accepted transactional batches of each producer.

AT_THE_START = -(2**31)
"""`object_order` of batches before the first one of the run."""
_PARKED = VERDICTS.index(Verdict.PARKED)
_ACCEPTED = VERDICTS.index(Verdict.ACCEPTED)
_RESENT = frozenset(map(VERDICTS.index, (Verdict.DUPLICATE, Verdict.STALE_DUPLICATE, Verdict.OUT_OF_ORDER)))

Place = tuple[int, int]
"""Object order and position."""


class CapturedBatch(NamedTuple):
    """One batch: when it was written, and its place in the capture."""

    producer_epoch: int
    timestamp: int
    object_order: int
    position: int


@dataclass(slots=True)
class ProducerBatches:
    """A producer's accepted batches; `is_cut` if others of the last epoch are parked behind them.

    `is_mixed` if there are plain ones, too, which a broker takes only while no transaction is open. Of an
    epoch that names one transaction only the first and the last batch are kept.
    """

    named_epochs: frozenset[int] = frozenset()
    batches: list[CapturedBatch] = field(default_factory=list)
    is_cut: bool = False
    is_mixed: bool = False

    def add(self, epoch: int, timestamp: int, verdict: int, place: Place) -> None:
        """One batch with its verdict, in the order of their judgement."""
        if verdict == _ACCEPTED:
            self._take(CapturedBatch(epoch, timestamp, *place))
        elif self.batches and self.batches[-1].producer_epoch == epoch:
            self.is_cut |= verdict == _PARKED
            if verdict in _RESENT:
                self.batches[-1] = CapturedBatch(epoch, self.batches[-1].timestamp, *place)

    def _take(self, batch: CapturedBatch) -> None:
        epoch, last = batch.producer_epoch, self.batches[-2:]
        if epoch in self.named_epochs and [each.producer_epoch for each in last] == [epoch, epoch]:
            self.batches[-1] = batch
        else:
            self.batches.append(batch)


def producers_in(lake: ObjectStore, keys: Iterable[str]) -> set[int]:
    """The producers that have transactional batches in these index files."""
    found: set[int] = set()
    for rows in iter_index(lake, keys, columns=["producer_id", "attributes", "magic", "problem"]):
        found.update(np.unique(values(rows, "producer_id")[_is_transactional(rows)]).tolist())
    return found


def follow(chains: Mapping[int, ProducerBatches], judged: Iterable[JudgedRows]) -> None:
    """Adds the run's batches to the chains of their producers."""
    producers, reached = np.array(sorted(chains), dtype=np.int64), (AT_THE_START, 0)
    for rows, verdicts in judged:
        is_known, is_transactional = np.isin(values(rows, "producer_id"), producers), _is_transactional(rows)
        for producer_id in np.unique(values(rows, "producer_id")[is_known & ~is_transactional]).tolist():
            chains[producer_id].is_mixed = True
        wanted, places = is_known & is_transactional, _reached(rows, reached)
        for producer_id, epoch, timestamp, verdict, *place in _columns(rows, verdicts, places, wanted):
            chains[producer_id].add(epoch, timestamp, verdict, (place[0], place[1]))
        reached = (int(places[0][-1]), int(places[1][-1])) if rows.num_rows else reached


Places = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def _reached(rows: pa.RecordBatch, before: Place) -> Places:
    """How far the stream was at each row: a parked batch is judged behind the one that fills its gap."""
    orders = np.concatenate(([before[0]], values(rows, "object_order"))).astype(np.int64)
    positions = np.concatenate(([before[1]], values(rows, "position"))).astype(np.int64)
    ascending = np.lexsort((positions, orders))
    rank = np.empty_like(ascending)
    rank[ascending] = np.arange(ascending.size)
    furthest = ascending[np.maximum.accumulate(rank)][1:]
    return orders[furthest], positions[furthest]


def _columns(
    rows: pa.RecordBatch, verdicts: npt.NDArray[np.int8], places: Places, wanted: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, ...]]:
    names = ("producer_id", "producer_epoch", "max_timestamp")
    columns = (*(values(rows, name) for name in names), verdicts, *places)
    return zip(*(column[wanted].tolist() for column in columns), strict=True)


def _is_transactional(rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    flags = values(rows, "attributes") & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
    found: npt.NDArray[np.bool_] = (
        (flags == TRANSACTIONAL_FLAG) & (values(rows, "magic") >= MAGIC_V2) & ~is_problem(rows)
    )
    return found


# What a Spark task does.

MarkerRow = dict[str, int]
MOST_ATTEMPTS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerJob:
    """One captured partition, and the digest of what earlier runs hold of it."""

    captured: CapturedPartition
    held: str

    @property
    def partition(self) -> TopicPartition:
        return self.captured.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerTask:
    """Some partitions for one worker; `timelines` are keys of files, `folder` is that of the step."""

    jobs: tuple[MarkerJob, ...]
    timelines: tuple[str, ...]
    settings: Settings
    lake: ObjectStore
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """The markers of one partition; no file if it needs none."""

    partition: TopicPartition
    markers: int = 0
    output: OutputFile | None = None


def mark_captures(task: MarkerTask) -> tuple[Marked, ...]:
    """Writes the markers that each partition lacks."""
    producers = {job.partition: _producers(task, job) for job in task.jobs}
    known = coordinator_transactions(task.lake, task.timelines, set().union(*producers.values()))
    return tuple(
        _mark(task, job, {p: known[p] for p in producers[job.partition] if p in known}) for job in task.jobs
    )


def _producers(task: MarkerTask, job: MarkerJob) -> set[int]:
    return producers_in(task.lake, job.captured.keys) | set(_open_parts(task, job)["producer_id"].tolist())


def _open_parts(task: MarkerTask, job: MarkerJob) -> Rows:
    rows = get_held(task.lake, job.held).transactions
    found: Rows = rows[(rows["marker_type"] == NO_MARKER) & (rows["batches"] > 0)]
    return found


def coordinator_transactions(
    lake: ObjectStore, timelines: Iterable[str], producers: set[int]
) -> dict[int, list[CoordinatorTransaction]]:
    """The transactions of some producers in the order of the coordinator's log."""
    found: dict[int, list[CoordinatorTransaction]] = {}
    wanted = pa.array(sorted(producers), pa.int64())
    for key in timelines:
        table = read_table(lake, key)
        is_wanted = pc.and_(
            pc.is_in(table.column("producer_id"), value_set=wanted), pc.is_valid(table.column("state"))
        )
        logged = table.filter(is_wanted).sort_by("first_record_offset")
        for txn, _, _ in transactions_in(logged):
            found.setdefault(txn.producer_id, []).append(txn)
    return found


def _mark(task: MarkerTask, job: MarkerJob, known: Mapping[int, Sequence[CoordinatorTransaction]]) -> Marked:
    skew_ms = task.settings.kafka.clock_skew_ms
    by_producer = {
        producer_id: candidates(txns, clock_skew_ms=skew_ms, trust_lone_aborts=False)
        for producer_id, txns in known.items()
    }
    rows = _stable_markers(task, job, by_producer)
    if not rows:
        return Marked(partition=job.partition)
    return Marked(partition=job.partition, markers=len(rows), output=_put(task, job, rows))


def _stable_markers(task: MarkerTask, job: MarkerJob, known: Mapping[int, Candidates]) -> list[MarkerRow]:
    """The markers that follow from the batches which are accepted with these very markers.

    A producer whose markers still change after the last attempt gets none.
    """
    chains = _chains(task, job, known, None)
    found = _markers(job, chains, known)
    unstable = {each: known[each] for each, own in chains.items() if own.is_mixed}
    for _ in range(MOST_ATTEMPTS):
        if not unstable:
            break
        markers = _table(chain.from_iterable(found.values()))
        again = _markers(job, _chains(task, job, unstable, markers), known)
        unstable = {each: own for each, own in unstable.items() if again[each] != found[each]}
        found |= again
    return [row for each, rows in sorted(found.items()) if each not in unstable for row in rows]


def _markers(
    job: MarkerJob, chains: Mapping[int, ProducerBatches], known: Mapping[int, Candidates]
) -> dict[int, list[MarkerRow]]:
    return {each: list(markers_of(job.partition, each, own, known[each])) for each, own in chains.items()}


def _chains(
    task: MarkerTask, job: MarkerJob, known: Mapping[int, Candidates], markers: pa.Table | None
) -> dict[int, ProducerBatches]:
    before = {int(row["producer_id"]): row for row in _open_parts(task, job)}
    chains = {
        producer_id: ProducerBatches(
            named_epochs=frozenset(each.named_by_data), batches=list(_opened(before.get(producer_id)))
        )
        for producer_id, each in known.items()
    }
    if chains:
        follow(
            chains,
            judge_producers(job.captured, task.lake, task.settings, producers=chains, markers=markers),
        )
    return chains


def _opened(row: "np.void | None") -> Iterator[CapturedBatch]:
    """An open transaction of earlier runs, by its first and its last batch."""
    if row is not None:
        place = (AT_THE_START, 0)
        yield CapturedBatch(int(row["first_epoch"]), int(row["first_timestamp"]), *place)
        yield CapturedBatch(int(row["producer_epoch"]), int(row["last_timestamp"]), *place)


def markers_of(
    partition: TopicPartition, producer_id: int, taken: ProducerBatches, known: Candidates
) -> Iterator[MarkerRow]:
    """A marker behind the last batch of every decided transaction, up to the first batch that is unclear."""
    batches = taken.batches
    matched = match_batches([_as_part(partition, producer_id, each) for each in batches], known)
    for place, index in enumerate(matched):
        if index < 0:
            return
        is_end = place + 1 == len(matched)
        txn = known.transactions[index]
        if is_end or matched[place + 1] != index:
            if txn.result is None or (is_end and taken.is_cut):
                return
            yield _marker(txn, batches[place])


def _as_part(partition: TopicPartition, producer_id: int, batch: CapturedBatch) -> PartitionTransaction:
    return PartitionTransaction(
        topic_partition=partition,
        producer_id=producer_id,
        producer_epoch=batch.producer_epoch,
        first_offset=0,
        last_offset=0,
        batch_count=1,
        first_timestamp=batch.timestamp,
        last_timestamp=batch.timestamp,
    )


def _marker(txn: CoordinatorTransaction, behind: CapturedBatch) -> MarkerRow:
    """The marker as its coordinator would have sent it."""
    assert txn.marker_epoch is not None  # it is decided
    assert txn.end_timestamp_ms is not None
    return {
        "before_object_order": behind.object_order,
        "before_position": behind.position + (behind.object_order != AT_THE_START),
        "producer_id": txn.producer_id,
        "producer_epoch": txn.marker_epoch,
        "control_type": int(txn.result is TransactionResult.COMMIT),
        "coordinator_epoch": txn.coordinator_epochs[-1],
        "timestamp": txn.end_timestamp_ms,
    }


def _put(task: MarkerTask, job: MarkerJob, rows: list[MarkerRow]) -> OutputFile:
    return put_table(task.lake, task.folder, MARKERS.file_of(partition=job.partition), _table(rows))


def _table(rows: Iterable[MarkerRow]) -> pa.Table:
    """Markers of one place are in the order of their decisions."""
    order = ("before_object_order", "before_position", "timestamp", "producer_id")
    ordered = sorted(rows, key=lambda row: tuple(row[name] for name in order))
    return MARKERS.cast(pa.Table.from_pylist(ordered, schema=MARKERS.schema))


# The driver's side.

MOST_TASKS = 16
"""Each task reads all timelines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedCaptures:
    """The files of markers, and how many there are."""

    outputs: tuple[OutputFile, ...] = ()
    markers: int = 0


def mark_all(
    run: RunContext, partitions: Sequence[RunPartition], states: Mapping[TopicPartition, str]
) -> MarkedCaptures:
    """Writes the markers of every partition that is captured without; none without a coordinator's log."""
    timelines = read_timelines(run.folder)
    jobs = tuple(_jobs(run, partitions, states)) if timelines.folds else ()
    tasks = [
        MarkerTask(
            jobs=jobs[share.start : share.stop],
            timelines=timelines.keys,
            settings=run.settings,
            lake=run.lake,
            folder=run.folder.key(Step.REBUILD),
        )
        for share in share_out([1] * len(jobs), MOST_TASKS)
    ]
    marked = tuple(chain.from_iterable(run.run_tasks(mark_captures, tasks)))
    outputs = tuple(each.output for each in marked if each.output is not None)
    if not outputs:
        return MarkedCaptures()
    listing = put_table(run.lake, run.folder.key(Step.REBUILD), MARKER_FILES.file, _listing(marked))
    return MarkedCaptures(outputs=(listing, *outputs), markers=sum(each.markers for each in marked))


def _jobs(
    run: RunContext, partitions: Iterable[RunPartition], states: Mapping[TopicPartition, str]
) -> Iterator[MarkerJob]:
    """Partitions with objects in this run; the others get their markers with their next batches."""
    before = resolved_before(run.lake, run.chain, run.folder.inputs.state_in)
    for found in partitions:
        row = before.get(found.partition)
        if not has_markers(found.entries, row, run.settings):
            captured = CapturedPartition(
                partition=found.partition,
                keys=tuple(key for copy in found.copies for key in copy.keys),
                objects=found.entries,
                state=states[found.partition],
            )
            yield MarkerJob(captured=captured, held="" if row is None else row["held_state"])


def _listing(marked: Iterable[Marked]) -> pa.Table:
    rows = [
        {"topic": each.partition.topic, "partition": each.partition.partition, "file": each.output.path}
        for each in marked
        if each.output is not None
    ]
    return MARKER_FILES.cast(pa.Table.from_pylist(rows, schema=MARKER_FILES.schema))
