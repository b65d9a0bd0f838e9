"""What a Spark task of a fetch does: partitions of one cut, several at a time, each from its leader.

Memory is bounded by `CONCURRENT` replies of `max_partition_fetch_bytes`, two of each partition: while one is
checked and written, the next is on its way.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from spark_jobs.config.sources import Source
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.sources.cluster import wire
from spark_jobs.sources.cluster.brokers import (
    AUTHORIZATION_FAILED,
    BROKEN,
    NO_LEADER,
    UNKNOWN_TOPIC,
    Brokers,
    error_name,
)
from spark_jobs.sources.cluster.cut import (
    UNKNOWN,
    ClusterDenied,
    ClusterUnavailable,
    LogDiverged,
    PartitionCut,
    PartitionFetched,
    QuotaExceeded,
    VersionMissing,
    check_cluster,
    run_async,
)
from spark_jobs.sources.cluster.planning import (
    TRIES,
    check_epochs,
    is_gone,
    is_recreated,
    pause,
    retried,
)
from spark_jobs.sources.cluster.replies import (
    NO_RISE,
    ReplyBatches,
    SegmentWriter,
    UntrustedReply,
    open_writer,
    take_batches,
)

CONCURRENT = 4
WAIT_MS = 500
OFFSET_OUT_OF_RANGE, UNSUPPORTED_COMPRESSION = 1, 76


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFetchTask:
    """Partitions of a cut for one worker, and its share of the allowed bytes per second, 0 if unlimited."""

    source: Source
    lake: ObjectStore
    day: date
    cuts: tuple[PartitionCut, ...]
    cluster_id: str = ""
    bytes_per_second: int = 0


def fetch_partitions(task: ClusterFetchTask) -> tuple[PartitionFetched, ...]:
    """Fetches the partitions of a task; what an earlier attempt has completed is not fetched again."""
    try:
        return run_async(_fetch_all(task))
    except ExceptionGroup as several:
        raise _worst(several) from None


def _worst(several: ExceptionGroup[Exception]) -> Exception:
    """Of the errors of several partitions one that a person has to act on, if there is one."""
    return min(several.exceptions, key=lambda error: getattr(error, "transient", False))


async def _fetch_all(task: ClusterFetchTask) -> tuple[PartitionFetched, ...]:
    slots, bucket = asyncio.Semaphore(CONCURRENT), Bucket(task.bytes_per_second)
    async with Brokers(task.source) as brokers:
        cluster = await retried(brokers, "metadata", lambda: brokers.metadata([]))
        check_cluster(task.source, task.cluster_id, cluster.cluster_id)

        async def one(cut: PartitionCut) -> PartitionFetched:
            async with slots:
                with open_writer(task.lake, task.source.name, task.day, cut) as writer:
                    return await _PartitionFetch(brokers, cut, writer, bucket).fetch()

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(cut)) for cut in task.cuts]
    return tuple(each.result() for each in running)


@dataclass(slots=True)
class Bucket:
    """Allows so many bytes per second on average, and as many at once; without a rate, all."""

    rate: int
    _allowed: float = 0.0
    _since: float = field(default_factory=time.monotonic)

    async def take(self, size: int) -> None:
        """Waits until `size` bytes are paid for: a large reply is paid for afterwards."""
        if not self.rate:
            return
        now = time.monotonic()
        self._allowed = min(self._allowed + (now - self._since) * self.rate, float(self.rate)) - size
        self._since = now
        if self._allowed < 0:
            await asyncio.sleep(-self._allowed / self.rate)


class _Retry(Exception):
    """The same offset has to be asked for again, after metadata were read again."""


class _OutOfRange(_Retry):
    """The leader does not have the offset; `log_start_offset` is where its log starts."""

    def __init__(self, position: int, log_start_offset: int) -> None:
        super().__init__(f"the leader has no offset {position}, its log starts at {log_start_offset}")
        self.log_start_offset = log_start_offset


class _Gone(Exception):
    """The topic was deleted."""


class _Recreated(Exception):
    """Another topic has the name now: what was fetched last may be of either."""


class _PartitionFetch:
    """One partition while it is fetched."""

    def __init__(self, brokers: Brokers, cut: PartitionCut, writer: SegmentWriter, bucket: Bucket) -> None:
        self._brokers, self._cut, self._writer, self._bucket = brokers, cut, writer, bucket
        self._leader = NO_LEADER
        self._leader_epoch = self._checked_epoch = cut.leader_epoch
        self._last_epoch = writer.epochs.latest_epoch
        self._log_start, self._suspect, self._rise = cut.log_start_offset, UNKNOWN, NO_RISE

    async def fetch(self) -> PartitionFetched:
        """Everything up to the end of the cut, of one topic and one history of its log."""
        try:
            await self._fetch_to_end()
            await self._check_end()
        except _Gone:
            return self._writer.finish(is_gone=True)
        except _Recreated:
            return await asyncio.to_thread(self._writer.finish_without)
        return self._writer.finish()

    async def _fetch_to_end(self) -> None:
        attempt, reached = 0, self._writer.position
        while self._writer.position < self._cut.end:
            try:
                await self._fetch_on()
            except (VersionMissing, QuotaExceeded):
                raise
            except (_Retry, UntrustedReply, ClusterUnavailable, *BROKEN) as error:
                await self._recover(error)
                problem = f"{type(error).__name__.strip('_')}: {error}"
                attempt = 0 if self._writer.position > reached else attempt + 1
                reached = self._writer.position
                if attempt >= TRIES:
                    raise ClusterUnavailable(
                        self._message(f"no progress in {TRIES} attempts: {problem}")
                    ) from None
                await pause(max(attempt - 1, 0))

    async def _check_end(self) -> None:
        """The same checks once more, since a leader may change, or a topic be recreated, without an error."""
        cut = self._cut
        cluster = await retried(self._brokers, "metadata", lambda: self._brokers.metadata([cut.topic]))
        topic = cluster.topics.get(cut.topic)
        if topic is None or topic.error == UNKNOWN_TOPIC:
            return
        if is_recreated(cut, topic):
            raise _Recreated
        await self._check_epochs()

    async def _recover(self, error: BaseException) -> None:
        """Prepares the next attempt: another connection, the leader of now, deleted offsets skipped."""
        if isinstance(error, UntrustedReply):
            self._brokers.drop(self._leader)
        self._leader = NO_LEADER
        if not isinstance(error, _OutOfRange):
            return
        if error.log_start_offset <= self._writer.position:
            self._checked_epoch = UNKNOWN
            return
        self._log_start = error.log_start_offset
        await asyncio.to_thread(self._writer.skip_to, min(error.log_start_offset, self._cut.end))

    async def _fetch_on(self) -> None:
        """Reply after reply, until the end or an error: the next one is asked for while one is written."""
        if self._leader == NO_LEADER:
            await self._find_leader()
        coming, asked_again = self._begin(self._writer.position), UNKNOWN
        try:
            while True:
                taken = await coming
                self._suspect, self._last_epoch = taken.hole, max(self._last_epoch, taken.last_epoch)
                self._rise = taken.rise
                is_empty = taken.next_offset == self._writer.position
                if is_empty and taken.rise != NO_RISE and asked_again != taken.next_offset:
                    is_empty, asked_again = False, taken.next_offset
                is_last = taken.next_offset >= self._cut.end or is_empty
                if not is_last:
                    coming = self._begin(taken.next_offset)
                await asyncio.to_thread(self._writer.write, taken)
                if is_last:
                    break
        finally:
            coming.cancel()
        if self._writer.position < self._cut.end:
            hole = "" if self._suspect == UNKNOWN else f": offset {self._suspect} is missing"
            raise _Retry(f"nothing at offset {self._writer.position}{hole}")

    def _begin(self, position: int) -> "asyncio.Task[ReplyBatches]":
        """Asks for the batches at `position`; an error is dropped if the reply is not awaited any more."""
        asked = asyncio.create_task(self._ask(position))
        asked.add_done_callback(lambda done: done.cancelled() or done.exception())
        return asked

    async def _find_leader(self) -> None:
        topic = (await self._brokers.metadata([self._cut.topic])).topics.get(self._cut.topic)
        if topic is not None and is_recreated(self._cut, topic):
            raise _Recreated
        leader = None if topic is None else topic.leaders.get(self._cut.partition)
        if leader is None or leader.node == NO_LEADER:
            if await is_gone(self._brokers, self._cut):
                raise _Gone
            raise _Retry("no leader")
        if leader.epoch == UNKNOWN or leader.epoch != self._checked_epoch:
            await self._check_epochs(tries=1)
        self._leader, self._leader_epoch = leader.node, leader.epoch
        self._checked_epoch = leader.epoch

    async def _ask(self, position: int) -> ReplyBatches:
        """The batches at `position`, checked."""
        size = self._brokers.source.max_partition_fetch_bytes
        request = wire.fetch(self._cut.topic, self._cut.partition, position, max_bytes=size, wait_ms=WAIT_MS)
        reply = await self._brokers.fetch(self._leader, request)
        found = self._partition_in(reply)
        data = found["message_set"] or b""
        await self._bucket.take(len(data))
        if found["error_code"]:
            await self._handle(found["error_code"], position)
        self._log_start = max(self._log_start, found.get("log_start_offset", 0))
        return await asyncio.to_thread(
            take_batches,
            data,
            position=position,
            end=self._cut.end,
            begins_inside=position <= self._log_start,
            confirmed_hole=self._suspect,
            confirmed_rise=self._rise,
            dense=not self._cut.is_compacted,
            epochs=(self._last_epoch, self._leader_epoch),
        )

    def _partition_in(self, reply: Mapping[str, Any]) -> Mapping[str, Any]:
        """The part of the reply about this partition."""
        if reply.get("error_code"):
            raise _Retry(error_name(reply["error_code"]))
        for topic in reply["topics"]:
            for each in topic["partitions"]:
                if (topic["topics"], each["partition"]) == (self._cut.topic, self._cut.partition):
                    found: Mapping[str, Any] = each
                    return found
        raise UntrustedReply("the reply is not about the partition")

    async def _handle(self, code: int, position: int) -> None:
        """Raises what follows from an error of the leader."""
        if code == AUTHORIZATION_FAILED:
            raise ClusterDenied(
                self._message(
                    "the principal may not read the topic. Grant it READ, or leave the topic out with "
                    f"topics: {{exclude: [{self._cut.topic}]}}"
                )
            )
        if code == UNSUPPORTED_COMPRESSION:
            raise VersionMissing(
                self._message("the topic has batches in zstd, which this broker gives to Fetch v10 only")
            )
        if code == OFFSET_OUT_OF_RANGE:
            await self._out_of_range(position)
        if code == UNKNOWN_TOPIC and await is_gone(self._brokers, self._cut):
            raise _Gone
        raise _Retry(error_name(code))

    async def _out_of_range(self, position: int) -> None:
        """Raises where the log starts now."""
        request = wire.list_offsets(
            wire.EARLIEST, {self._cut.topic: [self._cut.partition]}, isolation=wire.READ_UNCOMMITTED
        )
        reply = (await self._brokers.ask(self._leader, request))["topics"][0]["partitions"][0]
        if reply["error_code"]:
            raise _Retry(error_name(reply["error_code"]))
        raise _OutOfRange(position, reply["offset"])

    async def _check_epochs(self, tries: int | None = None) -> None:
        """Raises `LogDiverged` if another leader does not have what was written."""
        try:
            await check_epochs(self._brokers, {self._cut: self._writer.epoch_ends}, tries)
        except LogDiverged:
            self._writer.discard()
            raise

    def _message(self, text: str) -> str:
        return (
            f"source {self._brokers.source.name}: {self._cut.name} at offset {self._writer.position}: {text}"
        )
