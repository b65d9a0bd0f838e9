"""The driver's side of `resolve`: its phases, each a Spark job or work of the driver.

Spark's shuffle joins rows: parts and timelines by the bucket of their producer, outcomes by the bin of
their partition. What one phase writes for the next is in the run's folder, so that a phase can be repeated.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, update_wrapper
from itertools import chain

import numpy as np

from spark_jobs.config.settings import DAY_MS, Publish
from spark_jobs.config.sources import CONSUMER_OFFSETS, TRANSACTION_STATE
from spark_jobs.execution.shuffle import TaskRows
from spark_jobs.flow import Step
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.kafka.transactions.hanging import CopyReach
from spark_jobs.kafka.transactions.resolve import ResolveContext
from spark_jobs.lake.folds import Folds
from spark_jobs.lake.manifest import BATCH_ROLES, ManifestEntry
from spark_jobs.pipeline.context import RunContext, pack, share_out
from spark_jobs.pipeline.coordinator_logs.folding import Timelines
from spark_jobs.pipeline.coordinator_logs.timelines import (
    COMPLETED,
    COORDINATOR,
    FOLD_ROWS,
    fold_rows,
    prune_fold,
)
from spark_jobs.pipeline.resolve.close_partitions import (
    CLOSE_JOBS,
    ClosedPartition,
    CloseFacts,
    CloseJob,
    close_jobs,
    close_partitions,
)
from spark_jobs.pipeline.resolve.conclude import (
    BIN,
    CONCLUDED_PARTS,
    Concluded,
    ConcludeFacts,
    ConcludeTask,
    CutFacts,
    completed_rows,
    conclude_transactions,
    move_cuts,
)
from spark_jobs.pipeline.resolve.cuts import Cut
from spark_jobs.pipeline.resolve.gather import GatherPartition, GatherTask, find_newest_markers, gather_parts
from spark_jobs.pipeline.resolve.held_batches import RunBatches
from spark_jobs.pipeline.resolve.join import TIMELINE_ROWS, JoinFacts, read_timelines_of, resolve_bucket
from spark_jobs.pipeline.resolve.parts import BUCKET, PARTS, Numbers
from spark_jobs.pipeline.resolve.run_partitions import (
    NewestMarker,
    ResolvePartition,
    ends_of,
    gaps_between_runs,
    published_of,
)
from spark_jobs.pipeline.resolve.transaction_rows import Joined
from spark_jobs.sources.broker_files import CopiedPartitions
from spark_jobs.tables.states import FoldKind

WORK = "work"
PARTITIONS_PER_TASK = 64
MOST_TASKS = 64
PARTITION_COST = 4096
"""What closing a partition costs at least, in batches that could be read meanwhile."""
SMALLEST_BIN = 1 << 16
"""Partitions that cost less together are not worth a task of their own."""


NewestMarkers = Mapping[TopicPartition, NewestMarker]
"""By partition its newest marker, this run's or an earlier one's."""


@dataclass(frozen=True, kw_only=True)
class Phases:
    """A run's partitions, and the phases that they go through: each is a Spark job, or work of the driver."""

    run: RunContext
    partitions: tuple[ResolvePartition, ...]
    timelines: Timelines
    buckets: int
    copied: CopiedPartitions

    @property
    def work(self) -> str:
        """Where one phase leaves files for the next."""
        return self.run.folder.key(Step.RESOLVE, WORK)

    @cached_property
    def busy(self) -> tuple[ResolvePartition, ...]:
        return tuple(each for each in self.partitions if each.is_busy)

    @cached_property
    def names(self) -> tuple[TopicPartition, ...]:
        return tuple(each.partition for each in self.partitions)

    def _is_small(self, bins: int = 2) -> bool:
        """Whether it costs less than so many tasks: work too small to schedule runs in the driver."""
        if any(each.partition.topic == CONSUMER_OFFSETS for each in self.busy):
            return False  # its records are decoded
        held = sum(each.held_count for each in self.busy)
        return sum(map(_cost, self.busy)) + held + self.timelines.rows <= bins * SMALLEST_BIN

    def newest_markers(self) -> NewestMarkers:
        """The newest marker of each partition that has one."""
        by_task = self.run.run_tasks(find_newest_markers, self._gather_tasks(), in_driver=self._is_small())
        found = dict(chain.from_iterable(each.items() for each in by_task))
        return {
            each.partition: newest
            for each in self.partitions
            if (newest := _newest(found.get(each.number), each.newest_marker)) is not None
        }

    def _gather_tasks(self) -> list[GatherTask]:
        """A task per file of `admit`, and some for partitions that have nothing but held transactions."""
        shared: dict[str, list[ResolvePartition]] = {}
        for each in self.busy:
            path = None if each.admitted is None else each.admitted["transactions"]
            if path or each.held_state:
                shared.setdefault(path or "", []).append(each)
        gaps = gaps_between_runs(self.run, self.busy)
        return [
            GatherTask(
                partitions=tuple(_gather_partition(each, gaps.get(each.partition)) for each in together),
                transactions=self.run.folder.key(Step.ADMIT, path) if path else "",
                lake=self.run.lake,
            )
            for path, sharing in shared.items()
            for together in ([sharing] if path else pack(sharing, cost=lambda _: 1, most=PARTITIONS_PER_TASK))
        ]

    def reach(self, newest_markers: NewestMarkers) -> CopyReach:
        """How far the copies reach."""
        kafka, copied = self.run.settings.kafka, self.copied
        return CopyReach(
            recorded_until=self.timelines.recorded_until,
            marked_until={name: newest.timestamp for name, newest in newest_markers.items()},
            started=copied.started,
            finished=copied.finished,
            coordinator_started={
                partition.partition: started
                for partition, started in copied.started.items()
                if partition.topic == TRANSACTION_STATE
            },
            state_partitions=kafka.transaction_state_partitions,
            clock_skew_ms=kafka.clock_skew_ms,
        )

    def join(self, reach: CopyReach) -> list[Joined]:
        """Parts and timelines of the same producers, resolved; a bucket without any has no files."""
        facts = self._join_facts(reach)
        parts = TaskRows(
            function=partial(gather_parts, self.buckets), tasks=self._gather_tasks(), schema=PARTS
        )
        timelines = TaskRows(
            function=partial(read_timelines_of, self.run.lake, self.buckets),
            tasks=self.timelines.keys,
            schema=TIMELINE_ROWS,
        )
        joined = self.run.shuffle(
            [parts, timelines],
            key=BUCKET,
            function=partial(resolve_bucket, facts),
            name="join transactions with the coordinators' logs",
            in_driver=self._is_small(1),
        ).summaries
        return joined or [resolve_bucket(facts, 0, PARTS.empty_table(), TIMELINE_ROWS.empty_table())]

    def _join_facts(self, reach: CopyReach) -> JoinFacts:
        return JoinFacts(
            partitions=self.names,
            has_markers=tuple(each.has_markers for each in self.partitions),
            published=published_of(self.partitions),
            ends=ends_of(self.partitions),
            context=ResolveContext(
                now=self.run.now_ms,
                past=self.run.now_ms - DAY_MS,
                clock_skew_ms=self.run.settings.kafka.clock_skew_ms,
                has_coordinator_log=bool(self.timelines.folds),
                reach=reach,
                max_timeout_ms=self.run.settings.kafka.transaction_max_timeout_ms,
            ),
            lake=self.run.lake,
            work=self.work,
        )

    def cut(self, joined: Sequence[Joined]) -> Cut:
        """How far the run publishes; repeated until no transaction moves a cut any more."""
        published, ends = published_of(self.partitions), ends_of(self.partitions)
        decided = np.minimum.reduce([ends, *(each.undecided for each in joined)])
        cuts = decided
        is_held_back = bool(((cuts < ends) & ~published.is_internal).any())
        while is_held_back and self.run.settings.publish is Publish.WHOLE_TRANSACTIONS:
            facts = CutFacts(cuts=cuts, published=published, lake=self.run.lake)
            move = update_wrapper(partial(move_cuts, facts), move_cuts)
            lowered = np.minimum.reduce([cuts, *self.run.run_tasks(move, joined, in_driver=self._is_small())])
            is_held_back = not np.array_equal(lowered, cuts)
            cuts = lowered
        return Cut(cuts=cuts, decided=decided, ends=ends, published=published)

    def bins(self) -> list[tuple[ResolvePartition, ...]]:
        """Which partitions are closed in the same task."""
        costs = [_cost(each) for each in self.busy]
        shares = min(-(-sum(costs) // SMALLEST_BIN), MOST_TASKS)
        return [self.busy[share.start : share.stop] for share in share_out(costs, shares)]

    def conclusion(self, joined: Sequence[Joined], cut: Cut) -> "Conclusion":
        """What closing partitions and pruning folds start from."""
        facts = ConcludeFacts(
            partitions=self.names,
            cut=cut,
            bins=_bin_numbers(self.bins(), len(self.partitions)),
            lake=self.run.lake,
            folder=self.run.folder.key(Step.RESOLVE),
        )
        shares = share_out([1] * len(joined), MOST_TASKS)
        tasks = tuple(
            ConcludeTask(number=number, joined=tuple(joined[share.start : share.stop]))
            for number, share in enumerate(shares)
        )
        return Conclusion(facts=facts, tasks=tasks)

    def close(
        self, conclusion: "Conclusion", jobs: "CloseJobs"
    ) -> tuple[list[Concluded], list[ClosedPartition]]:
        """Writes the table `transactions`, and closes every busy partition with the outcomes of its parts."""
        facts, cuts = conclusion.facts, conclusion.facts.cut.cuts
        parts = TaskRows(
            function=partial(conclude_transactions, facts), tasks=conclusion.tasks, schema=CONCLUDED_PARTS
        )
        tasks = [
            (number, tuple(jobs.job(each, int(cuts[each.number])) for each in together))
            for number, together in enumerate(self.bins())
        ]
        close_facts = CloseFacts(lake=facts.lake, folder=facts.folder, settings=self.run.settings)
        found = self.run.shuffle(
            [parts, TaskRows(function=close_jobs, tasks=tasks, schema=CLOSE_JOBS)],
            key=BIN,
            function=partial(close_partitions, close_facts),
            name="close partitions",
            in_driver=self._is_small(),
        )
        concluded: list[Concluded] = sorted(found.notes, key=lambda each: each.number)
        return concluded, list(chain.from_iterable(found.summaries))

    def prune(self, conclusion: "Conclusion") -> Folds:
        """The coordinators' folds without completed transactions."""
        if not self.timelines.folds:
            return {}
        completed = TaskRows(
            function=partial(completed_rows, conclusion.facts), tasks=conclusion.tasks, schema=COMPLETED
        )
        pruned = self.run.shuffle(
            [completed, TaskRows(function=fold_rows, tasks=[self.timelines.folds], schema=FOLD_ROWS)],
            key=COORDINATOR,
            function=partial(prune_fold, self.run.lake),
            name="prune completed transactions",
            in_driver=self._is_small(),
        ).summaries
        return {
            (FoldKind.TIMELINES, TopicPartition(TRANSACTION_STATE, partition)): digest
            for partition, digest in pruned
        }

    def clear(self) -> None:
        """Removes what one phase left for the next."""
        for found in tuple(self.run.lake.list(self.work)):
            self.run.lake.delete(found.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """Resolved transactions once it is known how far partitions are published."""

    facts: ConcludeFacts
    tasks: tuple[ConcludeTask, ...]


def _cost(each: ResolvePartition) -> int:
    """What closing it costs, in batches."""
    return PARTITION_COST + (0 if each.admitted is None else int(each.admitted["rows"]))


def _gather_partition(each: ResolvePartition, gap: tuple[int, int] | None) -> GatherPartition:
    return GatherPartition(
        number=each.number,
        partition=each.partition,
        held_state=each.held_state,
        gap=gap,
        newest_marker=each.newest_marker,
    )


def _bin_numbers(bins: Sequence[Sequence[ResolvePartition]], count: int) -> Numbers:
    """For each partition's number the bin that it is in."""
    numbers = np.zeros(count, dtype=np.int32)
    for number, together in enumerate(bins):
        numbers[[each.number for each in together]] = number
    return numbers


def _newest(one: NewestMarker | None, other: NewestMarker | None) -> NewestMarker | None:
    return other if one is None else one.joined(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseJobs:
    """Makes jobs of partitions: the objects of their batches, what is held, what their broker noted."""

    run: RunContext
    inherited_objects: dict[TopicPartition, tuple[ManifestEntry, ...]]
    high_watermarks: dict[TopicPartition, int]
    before: Folds

    def job(self, each: ResolvePartition, cut: int) -> CloseJob:
        partition = each.partition
        key = "" if each.admitted is None else self.run.folder.key(Step.ADMIT, each.admitted["batches"])
        own = tuple(entry for entry in each.entries if entry.role in BATCH_ROLES)
        objects = (*self.inherited_objects.get(partition, ()), *own)
        return CloseJob(
            number=each.number,
            partition=partition,
            held_state=each.held_state,
            has_markers=each.has_markers,
            batches=RunBatches(key=key, objects=objects),
            log_start_offset=each.log_start_offset,
            log_end_offset=each.log_end_offset,
            cut=cut,
            checkpointed=self.high_watermarks.get(partition),
            offsets=self.before.get((FoldKind.GROUP_OFFSETS, partition), "")
            if partition.topic == CONSUMER_OFFSETS
            else "",
        )
