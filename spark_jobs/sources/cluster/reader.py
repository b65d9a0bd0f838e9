"""`kind: cluster` as a source: fetches a cut into the lake, and lists it like a copy of a broker's log."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import CONSUMER_OFFSETS, TRANSACTION_STATE
from spark_jobs.extras import Extra, require
from spark_jobs.kafka.formats.checkpoints import (
    CLUSTER_ID,
    EpochEntry,
    LeaderEpochs,
    OffsetCheckpointEntry,
    PartitionMetadata,
    write_leader_epochs,
    write_offsets,
    write_partition_metadata,
)
from spark_jobs.kafka.formats.log_files import (
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
)
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.errors import ObjectMissing, OutOfTurn
from spark_jobs.lake.layout import source_key
from spark_jobs.lake.manifest import Manifest, ObjectRole, StagedObjects, StageProblem
from spark_jobs.lake.object_store import ObjectStat, ObjectStore
from spark_jobs.lake.stores import open_lake
from spark_jobs.sources.broker_files import COPY_TIMES
from spark_jobs.sources.broker_log import BrokerLog
from spark_jobs.sources.cluster.cut import (
    CUT,
    FETCHED,
    LATER_TOPICS,
    PLAN,
    SCHEMAS,
    KnownPartitions,
    PartitionCut,
    PartitionFetched,
    Plan,
    check_cluster,
    cluster_of,
    cut_bytes,
    cut_dates,
    known_partitions,
    plan_bytes,
    read_cut,
    read_fetched,
    read_plan,
    run_async,
    run_date_of,
    some_of,
)
from spark_jobs.sources.source import Placed, TaskRunner

TASKS_PER_SLOT = 4
IN_DRIVER_OFFSETS = 100_000
"""Up to so many offsets the driver fetches them itself."""
WITHOUT = {
    TRANSACTION_STATE: "markers alone decide transactions, and open ones are held",
    CONSUMER_OFFSETS: "the table consumer_offsets gets no new rows",
    SCHEMAS: "its table gets no new rows",
}
"""What follows for each of `LATER_TOPICS` that is not readable."""
FetchedByPartition = Mapping[TopicPartition, PartitionFetched]


class Cluster(BrokerLog):
    """A live cluster: one folder per run date under the lake, with what was fetched for it."""

    def place_below_date(self, stat: ObjectStat, day: date | None, parts: list[str]) -> Placed | None:
        if parts == [CUT]:
            return Placed(source=self.source, stat=stat, role=ObjectRole.LOG_DIRECTORY, day=day)
        return super().place_below_date(stat, day, parts)

    def objects(self, settings: Settings, first: date, last: date) -> Iterator[ObjectStat]:
        """Of complete cuts only."""
        found = list(super().objects(settings, first, last))
        folders = {each.key.partition("/")[0] for each in found}
        keys = {each.key for each in found}
        complete = {each for each in folders if run_date_of(each) and f"{each}/{CUT}" in keys}
        yield from (each for each in found if each.key.partition("/")[0] in complete)

    def describe(self, placed: Sequence[Placed], settings: Settings) -> Iterator[Placed | StageProblem]:
        """Raises `ObjectMissing` if segments are missing of a cut that no current run has taken.

        Such a run was rolled back after its segments expired: a run of a later date would take the rest, and
        a partition would begin later than it did. `bring_in` has fetched or checked the newest cut.
        """
        cuts = sorted({each.day for each in placed if each.name == CUT and each.day})
        for day in cuts[:-1]:
            check_segments(open_lake(settings), self.source.name, day)
        yield from super().describe(placed, settings)

    def bring_in(
        self, day: date, lake: ObjectStore, tasks: TaskRunner | None, settings: Settings | None = None
    ) -> None:
        """Fetches the cut of `day`; once it is complete, it stays as it is.

        A cut of an earlier date that was interrupted is completed first. If a later date has a cut, the
        offsets of this one would be behind those of the later date: `OutOfTurn`.
        """
        dates = cut_dates(lake, self.source.name)
        for planned in (each for each in dates.planned if each <= day):
            self._complete(planned, lake, tasks)
        if day in dates.complete:
            check_segments(lake, self.source.name, day)
        if day in (*dates.complete, *dates.planned):
            return
        newest = max((*dates.complete, *dates.planned), default=None)
        if newest is not None and newest > day:
            raise OutOfTurn(_later_cut(self.source.name, day, newest))
        known = {} if newest is None else known_partitions(lake, self.source.name, newest)
        plan = self._plan(day, known, settings)
        if newest is not None:
            check_cluster(self.source, cluster_of(lake, self.source.name, newest), plan.cluster_id)
        lake.put(source_key(self.source.name, day, PLAN), plan_bytes(plan))
        self._complete(day, lake, tasks)

    def _plan(self, day: date, known: KnownPartitions, settings: Settings | None) -> Plan:
        require(Extra.CLUSTER, f"source {self.source.name}, kind cluster,")
        from spark_jobs.sources.cluster.brokers import Brokers  # noqa: PLC0415 - aiokafka is an extra
        from spark_jobs.sources.cluster.planning import make_plan  # noqa: PLC0415

        async def plan() -> Plan:
            async with Brokers(self.source) as brokers:
                return await make_plan(
                    brokers,
                    day,
                    known,
                    lambda topic: _is_compacted(topic, settings),
                    lambda topic: _is_in_tier(topic, settings),
                )

        return run_async(plan())

    def _complete(self, day: date, lake: ObjectStore, tasks: TaskRunner | None) -> None:
        """Fetches what the plan of `day` lists, and writes the files beside the segments."""
        plan = read_plan(lake, self.source.name, day)
        assert plan is not None
        done = self._fetch(plan, lake, tasks)
        for key in unlisted_segments(lake, self.source.name, plan, done):
            lake.delete(key)
        for name, data in files_of(plan, done):
            lake.put(source_key(self.source.name, day, name), data)
        lake.put(source_key(self.source.name, day, CUT), cut_bytes(plan, done))

    def _fetch(self, plan: Plan, lake: ObjectStore, runner: TaskRunner | None) -> FetchedByPartition:
        require(Extra.CLUSTER, f"source {self.source.name}, kind cluster,")
        from spark_jobs.sources.cluster.fetching import ClusterFetchTask, fetch_partitions  # noqa: PLC0415

        # A topic may be left out after its cut was made, because it cannot be fetched.
        takes = self.source.topics.takes
        cuts = [cut for cut in plan.partitions if cut.start < cut.end and takes(cut.topic)]
        offsets = sum(cut.end - cut.start for cut in cuts)
        parallel = self._parallelism(offsets, runner)
        shares = _shares(cuts, 1 if parallel == 1 else TASKS_PER_SLOT * parallel)
        rate = share_of(self.source.max_bytes_per_second, min(parallel, len(shares)))
        task = ClusterFetchTask(
            source=self.source,
            lake=lake,
            day=plan.day,
            cuts=(),
            cluster_id=plan.cluster_id,
            bytes_per_second=rate,
        )
        tasks = [replace(task, cuts=tuple(share)) for share in shares]
        if runner is None or parallel == 1:
            found = [fetch_partitions(task) for task in tasks]
        else:
            description = f"onceover {plan.day} stage fetch partitions of {self.source.name}"
            found = runner.run_tasks(fetch_partitions, tasks, description=description)
        done = {TopicPartition(each.topic, each.partition): each for share in found for each in share}
        return {
            TopicPartition(cut.topic, cut.partition): done.get(
                TopicPartition(cut.topic, cut.partition), _nothing_new(cut)
            )
            for cut in plan.partitions
        }

    def _parallelism(self, offsets: int, runner: TaskRunner | None) -> int:
        """How many tasks fetch at once; 1 if the driver does, which alone may have an Airflow connection."""
        if runner is None or offsets <= IN_DRIVER_OFFSETS:
            return 1
        is_apart = self.source.security.connection is not None and not runner.shares_environment
        return 1 if is_apart else runner.parallelism

    def remarks(self, manifest: Manifest, settings: Settings) -> Iterator[str]:
        """What a person should know about the cuts that the run took."""
        staged = StagedObjects(settings)
        for entry in manifest.entries:
            if entry.source == self.source.name and entry.name == CUT:
                facts = read_cut(staged.read(entry), source=f"{entry.source}/{entry.path}")
                yield from remarks_of(self.source.name, facts)


def unlisted_segments(lake: ObjectStore, source: str, plan: Plan, done: FetchedByPartition) -> list[str]:
    """Keys of segments that an attempt wrote, and that the result of the fetch does not have."""
    listed = {
        source_key(source, plan.day, f"{each.topic}-{each.partition}", name)
        for each in done.values()
        for name in each.segments
    }
    found = (each.key for each in lake.list(source_key(source, plan.day)))
    return [key for key in found if key.endswith(".log") and key not in listed]


def check_segments(lake: ObjectStore, source: str, day: date) -> None:
    """Raises `ObjectMissing` if segments of a complete cut were removed: its date cannot run again."""
    keys = {found.key for found in lake.list(source_key(source, day))}
    for key in sorted(key for key in keys if key.endswith(f"/{FETCHED}")):
        folder = key.removesuffix(FETCHED)
        fetched = read_fetched(lake.read(key), source=lake.url_of(key))
        gone = [name for name in fetched.segments if folder + name not in keys]
        if gone:
            raise ObjectMissing(
                f"{lake.url_of(folder + gone[0])}: this segment has expired or was removed: without it "
                f"neither {day} nor a later date can run again from what was fetched. To run later dates "
                f"without the records of {day}, remove the folder sources/{source}/{day} from the lake"
            )


def _later_cut(source: str, day: date, later: date) -> str:
    return (
        f"source {source}: {day} cannot be fetched, since the later date {later} has a cut and no final run. "
        f"If {later} was a mistake, remove the folder sources/{source}/{later} from the lake: what the "
        f"cluster still has of its offsets is fetched again. Otherwise run {later}, and then "
        f"onceover backfill --from {day} --to {day}"
    )


def _is_compacted(topic: str, settings: Settings | None) -> bool:
    return settings is not None and settings.topic(topic).is_compacted


def _is_in_tier(topic: str, settings: Settings | None) -> bool:
    """Whether another source reads what brokers have uploaded of the topic to tiered storage."""
    return settings is not None and any(
        source.layout is not None and source.topics.takes(topic) for source in settings.sources
    )


def share_of(bytes_per_second: int | None, parallel: int) -> int:
    """What each of so many tasks may fetch in a second; 0 if there is no limit."""
    return max(bytes_per_second // max(parallel, 1), 1) if bytes_per_second else 0


def _shares(cuts: list[PartitionCut], count: int) -> list[list[PartitionCut]]:
    """The partitions in at most `count` tasks, the largest first, each to the task with the least so far."""
    shares: list[list[PartitionCut]] = [[] for _ in range(min(count, len(cuts)))]
    loads = [0] * len(shares)
    for cut in sorted(cuts, key=lambda each: each.start - each.end):
        least = loads.index(min(loads))
        shares[least].append(cut)
        loads[least] += cut.end - cut.start
    return shares


def _nothing_new(cut: PartitionCut) -> PartitionFetched:
    return PartitionFetched(
        topic=cut.topic,
        partition=cut.partition,
        next_offset=cut.start,
        log_start_offset=cut.log_start_offset,
        epochs=cut.epochs,
    )


def files_of(plan: Plan, done: FetchedByPartition) -> Iterator[tuple[str, bytes]]:
    """The files that a broker keeps beside its logs, and the times of the cut."""
    pairs = [(cut, done[TopicPartition(cut.topic, cut.partition)]) for cut in plan.partitions]
    for cut, fetched in pairs:
        if fetched.segments:
            yield from _partition_files(cut, fetched)
    starts = [(cut, fetched.log_start_offset) for cut, fetched in pairs if _is_overtaken(cut, fetched)]
    cleaned = [(cut, fetched.next_offset) for cut, fetched in pairs if cut.is_compacted]
    yield LOG_START_OFFSET_CHECKPOINT, _checkpoint(starts)
    yield CLEANER_OFFSET_CHECKPOINT, _checkpoint(cleaned)
    if plan.cluster_id:
        yield META_PROPERTIES, f"version=1\n{CLUSTER_ID}={plan.cluster_id}\n".encode()
    yield COPY_TIMES, _copy_times(plan)


def _is_overtaken(cut: PartitionCut, fetched: PartitionFetched) -> bool:
    """Whether the log starts behind what the last cut had, or inside the first batch of this one."""
    first = fetched.first_offset if fetched.segments else fetched.next_offset
    return fetched.log_start_offset > (first if cut.expected < 0 else min(cut.expected, first))


def _partition_files(cut: PartitionCut, fetched: PartitionFetched) -> Iterator[tuple[str, bytes]]:
    if cut.topic_id:
        metadata = PartitionMetadata(topic_id=cut.topic_id)
        yield f"{cut.name}/{PARTITION_METADATA}", write_partition_metadata(metadata)
    entries = tuple(EpochEntry(epoch=epoch, start_offset=start) for epoch, start in fetched.epochs)
    epochs = LeaderEpochs(entries=entries).truncate_from_start(fetched.log_start_offset)
    yield f"{cut.name}/{LEADER_EPOCH_CHECKPOINT}", write_leader_epochs(epochs.entries)


def _checkpoint(offsets: list[tuple[PartitionCut, int]]) -> bytes:
    return write_offsets(
        OffsetCheckpointEntry(topic=cut.topic, partition=cut.partition, offset=offset)
        for cut, offset in offsets
    )


def _copy_times(plan: Plan) -> bytes:
    """High watermarks were read in this time: nothing later than that is in the segments."""
    later = [cut for cut in plan.partitions if cut.topic in LATER_TOPICS]
    times = {"": plan.data_times} | {f"{cut.name}/": plan.coordinator_times for cut in later}
    copied = [
        {"path": path, "started_at": started, "finished_at": finished}
        for path, (started, finished) in times.items()
    ]
    return json.dumps({"format": 1, "copied": copied}).encode()


def remarks_of(source: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """Remarks on the facts of a cut, as `cut.json` has them."""
    for topic in facts["denied"]:
        yield f"{source}: the principal may not read {topic}: {WITHOUT[topic]}"
    for note in facts["notes"]:
        yield f"{source}: {note}"
    overtaken = [each for each in facts["partitions"] if 0 <= each["expected"] < each["log_start_offset"]]
    if overtaken:
        lost = [f"{_name(each)} {each['expected']} to {each['log_start_offset'] - 1}" for each in overtaken]
        yield (
            f"{source}: retention or DeleteRecords overtook the runs; the cluster deleted offsets before "
            f"they were fetched: {some_of(lost)}"
        )
    gone = [_name(each) for each in facts["partitions"] if each["is_gone"]]
    if gone:
        yield f"{source}: deleted or recreated while it was fetched, so its end is missing: {some_of(gone)}"


def _name(partition: Mapping[str, Any]) -> str:
    return f"{partition['topic']}-{partition['partition']}"
