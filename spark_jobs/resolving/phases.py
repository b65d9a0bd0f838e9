"""The driver's side of resolving a night: one round of tasks after the other, small values in between."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from spark_jobs.config.settings import DAY_MS, Publish
from spark_jobs.config.sources import CONSUMER_OFFSETS, TRANSACTION_STATE
from spark_jobs.flow import Step
from spark_jobs.protocol.copy_reach import CopyReach
from spark_jobs.protocol.topic_partition import TopicPartition
from spark_jobs.protocol.transactions import ResolveContext
from spark_jobs.resolving.buckets import share_out
from spark_jobs.resolving.carry_job import CarriedPartition, CarryJob, CarryTask
from spark_jobs.resolving.carry_on import carry_partitions
from spark_jobs.resolving.conclude import (
    Concluded,
    ConcludeTask,
    CutTask,
    conclude_transactions,
    move_cuts,
)
from spark_jobs.resolving.coordinators import Timelines
from spark_jobs.resolving.cuts import Numbers, Offsets
from spark_jobs.resolving.fates import Cut
from spark_jobs.resolving.forget import ForgetTask, forget_settled
from spark_jobs.resolving.gather import GatherPartition, GatherTask, gather_parts
from spark_jobs.resolving.held_rows import NightBatches
from spark_jobs.resolving.join import JoinTask, Night, resolve_buckets
from spark_jobs.resolving.joined_rows import Joined
from spark_jobs.resolving.night import PartitionNight, ends_of, gaps_between_nights, reach_of
from spark_jobs.resolving.part_rows import NewestMarker
from spark_jobs.resolving.run import Run, Summary, Task
from spark_jobs.storage.copy_times import CopiedPartitions
from spark_jobs.storage.folds import FoldName, Folds
from spark_jobs.storage.manifest import BATCH_ROLES, ManifestEntry
from spark_jobs.tables.folds import FoldKind

WORK = "work"
PARTITIONS_PER_TASK = 64
MOST_TASKS = 64
PARTITION_COST = 4096
"""What closing a partition's night costs at least, in batches that could be looked at meanwhile."""
SMALLEST_BIN = 1 << 16
"""Partitions that cost less together are not worth a task of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Keys of files with parts, and by partition its newest marker, this run's or an earlier one's."""

    keys: tuple[str, ...]
    newest_markers: Mapping[TopicPartition, NewestMarker]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """A night's partitions, and the rounds that they go through."""

    run: Run
    night: tuple[PartitionNight, ...]
    timelines: Timelines
    buckets: int
    copied: CopiedPartitions

    @property
    def work(self) -> str:
        """Where one round's tasks leave files for the next."""
        return self.run.folder.key(Step.RESOLVE, WORK)

    @property
    def busy(self) -> tuple[PartitionNight, ...]:
        return tuple(each for each in self.night if each.is_busy)

    def _is_worth(self, bins: int) -> bool:
        """Whether all of it costs more than so many tasks do, or is more than headers."""
        busy = self.busy
        if any(each.partition.topic == CONSUMER_OFFSETS for each in busy):
            return True
        waiting = sum(each.waits for each in busy)
        return sum(map(_cost, busy)) + waiting + self.timelines.rows > bins * SMALLEST_BIN

    def _run_tasks(
        self, function: Callable[[Task], Summary], tasks: Sequence[Task], *, worth: int = 2
    ) -> list[Summary]:
        """By workers, but in the driver what is too small to schedule: a night of less than `worth` bins."""
        return self.run.run_tasks(function, tasks, in_driver=not self._is_worth(worth))

    def gather(self) -> Parts:
        """All transactions as partitions saw them, divided by producer."""
        gathered = self._run_tasks(gather_parts, list(self._gather_tasks()))
        found = dict(chain.from_iterable(each.newest_markers.items() for each in gathered))
        return Parts(
            keys=tuple(each.key for each in gathered if each.rows),
            newest_markers={
                each.partition: newest
                for each in self.night
                if (newest := _newest(found.get(each.number), each.newest_marker)) is not None
            },
        )

    def _gather_tasks(self) -> Iterable[GatherTask]:
        shared: dict[str, list[PartitionNight]] = {}
        for each in self.busy:
            path = None if each.admitted is None else each.admitted["transactions"]
            if path or each.waiting:
                shared.setdefault(path or "", []).append(each)
        groups = [
            (path, together[start : start + (PARTITIONS_PER_TASK if not path else len(together))])
            for path, together in shared.items()
            for start in range(0, len(together), PARTITIONS_PER_TASK if not path else len(together))
        ]
        gaps = gaps_between_nights(self.run, self.busy)
        for number, (path, together) in enumerate(groups):
            yield GatherTask(
                number=number,
                partitions=tuple(
                    GatherPartition(
                        number=each.number,
                        partition=each.partition,
                        waiting=each.waiting,
                        gap=gaps.get(each.partition),
                        newest_marker=each.newest_marker,
                    )
                    for each in together
                ),
                transactions=self.run.folder.key(Step.ADMIT, path) if path else "",
                buckets=self.buckets,
                lake=self.run.lake,
                work=self.work,
            )

    def reach(self, parts: Parts) -> CopyReach:
        """How far the copies reach."""
        kafka, copied = self.run.settings.kafka, self.copied
        return CopyReach(
            recorded_until=self.timelines.recorded_until,
            marked_until={name: newest.timestamp for name, newest in parts.newest_markers.items()},
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

    def join(self, parts: Parts) -> list[Joined]:
        """Parts and timelines of the same producers, resolved."""
        night = Night(
            partitions=tuple(each.partition for each in self.night),
            has_markers=tuple(each.has_markers for each in self.night),
            context=ResolveContext(
                now=self.run.now_ms,
                past=self.run.now_ms - DAY_MS,
                clock_skew_ms=self.run.settings.kafka.clock_skew_ms,
                has_coordinator_log=bool(self.timelines.folds),
                reach=self.reach(parts),
                max_timeout_ms=self.run.settings.kafka.transaction_max_timeout_ms,
            ),
        )
        tasks = [
            JoinTask(
                number=number,
                buckets=share,
                night=night,
                reach=reach_of(self.night),
                ends=ends_of(self.night),
                parts=parts.keys,
                timelines=self.timelines.keys,
                lake=self.run.lake,
                work=self.work,
            )
            for number, share in enumerate(share_out([1] * self.buckets, MOST_TASKS))
        ]
        return self._run_tasks(resolve_buckets, tasks, worth=1)

    def cut(self, joined: Sequence[Joined]) -> Cut:
        """How far the night publishes; rounds go on until no transaction moves a cut any more."""
        reach, ends = reach_of(self.night), ends_of(self.night)
        decided = np.minimum.reduce([ends, *(each.undecided for each in joined)])
        cuts = decided
        is_held_back = bool(((cuts < ends) & ~reach.is_internal).any())
        while is_held_back and self.run.settings.publish is Publish.WHOLE_TRANSACTIONS:
            tasks = [CutTask(joined=each, cuts=cuts, reach=reach, lake=self.run.lake) for each in joined]
            lowered = np.minimum.reduce([cuts, *self._run_tasks(move_cuts, tasks)])
            is_held_back = not np.array_equal(lowered, cuts)
            cuts = lowered
        return Cut(cuts=cuts, decided=decided, ends=ends, reach=reach)

    def conclude(self, joined: Sequence[Joined], cut: Cut, bins: Numbers) -> list[Concluded]:
        """The table `transactions`, and a word on each part for the task that has its partition."""
        tasks = [
            ConcludeTask(
                joined=each,
                partitions=tuple(known.partition for known in self.night),
                cut=cut,
                bins=bins,
                lake=self.run.lake,
                folder=self.run.folder.key(Step.RESOLVE),
                work=self.work,
            )
            for each in joined
        ]
        return self._run_tasks(conclude_transactions, tasks)

    def bins(self) -> list[tuple[PartitionNight, ...]]:
        """Which partitions close their night in the same task."""
        busy = self.busy
        costs = [_cost(each) for each in busy]
        shares = min(-(-sum(costs) // SMALLEST_BIN), MOST_TASKS)
        return [busy[share.start : share.stop] for share in share_out(costs, shares)]

    def carry(
        self,
        bins: Sequence[Sequence[PartitionNight]],
        concluded: Sequence[Concluded],
        cuts: Offsets,
        jobs: "CarryJobs",
    ) -> tuple[CarriedPartition, ...]:
        """Closes the night of every partition that has something to do."""
        tasks = [
            CarryTask(
                number=number,
                jobs=tuple(jobs.job(each, int(cuts[each.number])) for each in together),
                concluded=tuple(each.parts for each in concluded),
                lake=self.run.lake,
                folder=self.run.folder.key(Step.RESOLVE),
                settings=self.run.settings,
            )
            for number, together in enumerate(bins)
        ]
        return tuple(chain.from_iterable(self._run_tasks(carry_partitions, tasks)))

    def forget(self, concluded: Sequence[Concluded]) -> dict[FoldName, str]:
        """The coordinators' folds without what is over."""
        folds = self.timelines.folds
        tasks = [
            ForgetTask(
                folds=folds[share.start : share.stop],
                settled=tuple(each.settled for each in concluded),
                lake=self.run.lake,
            )
            for share in share_out([1] * len(folds), MOST_TASKS)
        ]
        left = chain.from_iterable(self._run_tasks(forget_settled, tasks))
        return {
            (FoldKind.TIMELINES, TopicPartition(TRANSACTION_STATE, partition)): digest
            for partition, digest in left
        }

    def clear(self) -> None:
        """Removes what tasks have left for each other."""
        for found in tuple(self.run.lake.list(self.work)):
            self.run.lake.delete(found.key)


def _cost(each: PartitionNight) -> int:
    """What closing its night costs, in batches."""
    return PARTITION_COST + (0 if each.admitted is None else int(each.admitted["rows"]))


def _newest(one: NewestMarker | None, other: NewestMarker | None) -> NewestMarker | None:
    return other if one is None else one.joined(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryJobs:
    """Makes jobs of partitions: what their batches lie in, what they carry, what their broker noted."""

    run: Run
    carried_objects: dict[TopicPartition, tuple[ManifestEntry, ...]]
    high_watermarks: dict[TopicPartition, int]
    before: Folds

    def job(self, each: PartitionNight, cut: int) -> CarryJob:
        partition = each.partition
        key = "" if each.admitted is None else self.run.folder.key(Step.ADMIT, each.admitted["batches"])
        own = tuple(entry for entry in each.entries if entry.role in BATCH_ROLES)
        objects = (*self.carried_objects.get(partition, ()), *own)
        return CarryJob(
            number=each.number,
            partition=partition,
            waiting=each.waiting,
            has_markers=each.has_markers,
            batches=NightBatches(key=key, objects=objects),
            log_start_offset=each.log_start_offset,
            log_end_offset=each.log_end_offset,
            cut=cut,
            checkpointed=self.high_watermarks.get(partition),
            offsets=self.before.get((FoldKind.GROUP_OFFSETS, partition), "")
            if partition.topic == CONSUMER_OFFSETS
            else "",
        )
