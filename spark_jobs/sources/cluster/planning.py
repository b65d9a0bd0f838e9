"""Makes the cut: asks the leaders for log starts, last stable offsets and high watermarks.

The data topics come first, then the coordinators' topics and `_schemas`. So a transaction that is in the data
is in the coordinator's log, too, and a schema that a record names is in `_schemas`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import ClassVar, TypeVar

from spark_jobs.config.sources import INTERNAL_TOPICS
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.errors import StorageError
from spark_jobs.sources.cluster import wire
from spark_jobs.sources.cluster.brokers import (
    AUTHORIZATION_FAILED,
    BROKEN,
    NO_LEADER,
    UNKNOWN_TOPIC,
    Brokers,
    ClusterMetadata,
    LeaderOf,
    TopicMetadata,
    error_name,
)
from spark_jobs.sources.cluster.cut import (
    LATER_TOPICS,
    SCHEMAS,
    UNKNOWN,
    ClusterDenied,
    ClusterUnavailable,
    Epochs,
    KnownPartition,
    KnownPartitions,
    LogDiverged,
    PartitionCut,
    Plan,
    QuotaExceeded,
    VersionMissing,
    some_of,
)
from spark_jobs.sources.source import LEGAL_TOPIC

TRIES, FIRST_PAUSE, LONGEST_PAUSE = 10, 0.1, 10.0
"""Attempts without progress, and the pauses between them in seconds: about 35 seconds in all."""
Leaders = Mapping[TopicPartition, LeaderOf]
Topics = Mapping[str, TopicMetadata]
Result = TypeVar("Result")


class TryAgain(Exception):
    """A leader has moved, or is not available yet; `final` is the error if that does not change."""

    final: ClassVar[type[StorageError]] = ClusterUnavailable


async def pause(attempt: int) -> None:
    """The pause after an attempt, growing."""
    await asyncio.sleep(min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE))


async def retried(
    brokers: Brokers, what: str, attempt: Callable[[], Awaitable[Result]], tries: int | None = None
) -> Result:
    """`attempt` until it succeeds; `ClusterUnavailable` if it never does."""
    problem: BaseException = TryAgain("not tried")
    tries = TRIES if tries is None else tries
    for number in range(tries):
        try:
            return await attempt()
        except (TryAgain, ClusterUnavailable, *BROKEN) as error:
            if isinstance(error, VersionMissing | QuotaExceeded):
                raise
            problem = error
        await pause(number)
    final = problem.final if isinstance(problem, TryAgain) else ClusterUnavailable
    raise final(
        f"source {brokers.source.name}: {what}: no success in {tries} attempts: "
        f"{type(problem).__name__.strip('_')}: {problem}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffsets:
    """What the leader of a partition reports; `local` only of partitions that begin there."""

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    local: "LocalStart | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStart:
    """Where the broker's own segments begin, and the leader epoch at the start of the whole log."""

    offset: int
    first_epoch: tuple[int, int]


def nowhere(topic: str) -> bool:
    """No topic is in tiered storage that another source reads."""
    del topic
    return False


async def make_plan(
    brokers: Brokers,
    day: date,
    known: KnownPartitions,
    is_compacted: Callable[[str], bool],
    in_tier: Callable[[str], bool] = nowhere,
) -> Plan:
    """The cut of `day`, which continues what is `known`; nothing is fetched yet.

    `is_compacted` shows which topics the settings call so. What brokers have uploaded of topics `in_tier` is
    another source's: a new partition is fetched from where the broker's own segments begin.
    """
    cluster = await retried(brokers, "metadata", brokers.metadata)
    takes = brokers.source.topics.takes
    topics = {
        name: each for name, each in cluster.topics.items() if takes(name) and LEGAL_TOPIC.fullmatch(name)
    }
    denied = await _denied(brokers, cluster)
    data = [name for name in topics if name not in LATER_TOPICS]
    later = [name for name in topics if name in LATER_TOPICS and name not in denied]
    notes = [*await _absent(brokers, cluster, denied)]
    given = {name for name in topics if name in INTERNAL_TOPICS or is_compacted(name)}
    found_compacted, unread = await _compacted(
        brokers, [name for name in topics if name not in given and name not in denied]
    )
    notes, compacted = [*notes, *unread], given | found_compacted
    times, cuts = [_now()], list[PartitionCut]()
    for names in (data, later):
        described, offsets = await _offsets(brokers, names, known, in_tier)
        cuts += (
            _cut(described[at.topic], at, found, known, is_compacted=at.topic in compacted)
            for at, found in sorted(offsets.items())
        )
        times.append(_now())
    await check_epochs(brokers, {cut: (cut.known_end,) for cut in cuts if cut.known_end is not None})
    return Plan(
        day=day,
        cluster_id=cluster.cluster_id,
        data_times=(times[0], times[1]),
        coordinator_times=(times[1], times[2]),
        partitions=tuple(cuts),
        denied=tuple(sorted(denied)),
        known=known,
        notes=(*notes, *_notes(known, cuts, topics)),
    )


def _now() -> str:
    return datetime.now(tz=UTC).isoformat(timespec="milliseconds")


def _cut(
    topic: TopicMetadata,
    partition: TopicPartition,
    found: ListedOffsets,
    known: KnownPartitions,
    *,
    is_compacted: bool,
) -> PartitionCut:
    before = _same_log(known.get(partition), topic)
    start = found.log_start_offset if before is None else max(before.next_offset, found.log_start_offset)
    epochs: Epochs = () if before is None else before.epochs
    if before is None and found.local is not None:
        start, epochs = found.local.offset, (found.local.first_epoch,)
    return PartitionCut(
        topic=partition.topic,
        partition=partition.partition,
        topic_id=topic.topic_id or ("" if before is None else before.topic_id),
        start=start,
        end=found.high_watermark,
        log_start_offset=found.log_start_offset,
        last_stable_offset=found.last_stable_offset,
        leader_epoch=topic.leaders[partition.partition].epoch,
        expected=UNKNOWN if before is None else before.next_offset,
        is_compacted=is_compacted,
        epochs=epochs,
    )


def _same_log(known: KnownPartition | None, topic: TopicMetadata) -> KnownPartition | None:
    """What is known, unless the topic was deleted and recreated since: then it has another id."""
    if known is None or (known.topic_id and topic.topic_id and known.topic_id != topic.topic_id):
        return None
    return known


def _notes(
    known: KnownPartitions, cuts: Iterable[PartitionCut], topics: Mapping[str, TopicMetadata]
) -> Iterable[str]:
    """What changed in the cluster since the last cut, in sentences."""
    if not known:
        return
    before = {partition.topic for partition in known}
    added = [cut.name for cut in cuts if cut.expected == UNKNOWN and cut.topic in before]
    added = [name for name in added if TopicPartition(*_split(name)) not in known]
    if added:
        yield f"partitions were added since the last run: {some_of(added)}"
    gone = sorted(before - set(topics))
    if gone:
        yield f"topics of earlier runs are not in the cluster, or not readable: {some_of(gone)}"
    moved = [
        cut.name
        for cut in cuts
        if cut.expected != UNKNOWN and cut.epochs and cut.leader_epoch > cut.epochs[-1][0]
    ]
    if moved:
        yield f"leaders changed since the last run: {some_of(moved)}"


def _split(name: str) -> tuple[str, int]:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


async def _denied(brokers: Brokers, cluster: ClusterMetadata) -> set[str]:
    """The topics of `LATER_TOPICS` that exist, and that the principal may not read.

    `_schemas` is one if the source takes it; invisible, it is known to exist only if `include` has its name.
    """
    found: set[str] = set()
    missing = [name for name in INTERNAL_TOPICS if name not in cluster.topics]
    taken = brokers.source.topics
    if SCHEMAS in taken.include and taken.takes(SCHEMAS) and SCHEMAS not in cluster.topics:
        missing.append(SCHEMAS)
    if missing:
        asked = await retried(brokers, "metadata", lambda: brokers.metadata(missing))
        found |= {name for name, topic in asked.topics.items() if topic.error == AUTHORIZATION_FAILED}
    for name in filter(taken.takes, LATER_TOPICS):
        if name in cluster.topics and await _may_not_read(brokers, name):
            found.add(name)
    return found


async def _absent(brokers: Brokers, cluster: ClusterMetadata, denied: set[str]) -> Iterable[str]:
    """A note on topics that `include` names and the cluster does not have; invisible ones are an error."""
    filtered, seen = brokers.source.topics, {*cluster.topics, *INTERNAL_TOPICS, *denied}
    names = [
        name
        for name in filtered.include
        if LEGAL_TOPIC.fullmatch(name) and filtered.takes(name) and name not in seen
    ]
    if not names:
        return ()
    asked = (await retried(brokers, "metadata", lambda: brokers.metadata(names))).topics
    for name in names:
        if name in asked and asked[name].error == AUTHORIZATION_FAILED:
            raise ClusterDenied(_may_not(brokers, name))
    absent = [name for name in names if name not in asked or asked[name].error]
    return (
        (f"topics.include names topics that the cluster does not have: {some_of(absent)}",) if absent else ()
    )


async def _may_not_read(brokers: Brokers, topic: str) -> bool:
    """Whether a fetch of the topic is refused: describing it needs another permission than reading it."""

    async def ask() -> bool:
        partition, leader = next(iter((await _leaders(brokers, [topic])).items()))
        request = wire.fetch(topic, partition.partition, 0, max_bytes=1, wait_ms=0)
        reply = await brokers.fetch(leader.node, request)
        code: int = reply["topics"][0]["partitions"][0]["error_code"]
        return code == AUTHORIZATION_FAILED

    return await retried(brokers, topic, ask)


async def _compacted(brokers: Brokers, topics: list[str]) -> tuple[set[str], tuple[str, ...]]:
    """Topics whose `cleanup.policy` has compact, and a note if some could not be read."""
    if not topics:
        return set(), ()
    try:
        reply = await retried(brokers, "configs", lambda: brokers.any(wire.cleanup_policies(topics)))
    except ClusterUnavailable:
        return set(), (_unread(topics),)
    unread = sorted(each["resource_name"] for each in reply["resources"] if each["error_code"])
    found = {
        each["resource_name"]
        for each in reply["resources"]
        if any("compact" in (entry["config_value"] or "") for entry in each["config_entries"] or ())
    }
    return found, (_unread(unread),) if unread else ()


def _unread(topics: list[str]) -> str:
    return (
        f"cleanup.policy could not be read of {some_of(topics)}: if a topic is compacted, set "
        "cleanup_policy: compact for it"
    )


async def _leaders(brokers: Brokers, topics: list[str]) -> dict[TopicPartition, LeaderOf]:
    """The leaders of all partitions of `topics`; `TryAgain` if one has none."""
    return _leaders_in(brokers, topics, (await brokers.metadata(topics)).topics)


def _leaders_in(brokers: Brokers, topics: list[str], described: Topics) -> dict[TopicPartition, LeaderOf]:
    found: dict[TopicPartition, LeaderOf] = {}
    for name in topics:
        topic = described.get(name)
        if topic is None:
            raise TryAgain(f"{name}: no metadata")
        if topic.error == AUTHORIZATION_FAILED:
            raise ClusterDenied(_may_not(brokers, name))
        if topic.error or any(leader.node == NO_LEADER for leader in topic.leaders.values()):
            raise TryAgain(
                f"{name}: {error_name(topic.error) if topic.error else 'a partition has no leader'}"
            )
        found |= {TopicPartition(name, number): leader for number, leader in topic.leaders.items()}
    return found


def _may_not(brokers: Brokers, topic: str) -> str:
    return (
        f"source {brokers.source.name}: the principal may not read the topic {topic}. Grant it READ and "
        f"DESCRIBE, or leave the topic out with topics: {{exclude: [{topic}]}}"
    )


async def _offsets(
    brokers: Brokers, topics: list[str], known: KnownPartitions, in_tier: Callable[[str], bool]
) -> tuple[Topics, dict[TopicPartition, ListedOffsets]]:
    """Of all partitions, asked of their leaders, high watermarks last; and the topics as they are then."""
    if not topics:
        return {}, {}

    async def ask(leaders: Leaders) -> dict[TopicPartition, ListedOffsets]:
        new = {at: each for at, each in leaders.items() if at not in known and in_tier(at.topic)}
        local = await _local_starts(brokers, new)
        starts = await _listed(brokers, leaders, wire.EARLIEST)
        stable = await _listed(brokers, leaders, wire.LATEST, isolation=wire.READ_COMMITTED)
        ends = await _listed(brokers, leaders, wire.LATEST)
        return {
            partition: ListedOffsets(
                log_start_offset=starts[partition],
                last_stable_offset=stable[partition],
                high_watermark=ends[partition],
                local=local.get(partition),
            )
            for partition in leaders
        }

    async def not_behind() -> tuple[Topics, dict[TopicPartition, ListedOffsets]]:
        before = (await brokers.metadata(topics)).topics
        found = await ask(_leaders_in(brokers, topics, before))
        after = (await brokers.metadata(topics)).topics
        if _leaders_in(brokers, topics, after).keys() != found.keys() or _ids(before) != _ids(after):
            raise TryAgain("topics or partitions were created or deleted meanwhile")
        for partition, offsets in found.items():
            last = _same_log(known.get(partition), after[partition.topic])
            if last is not None and offsets.high_watermark < last.next_offset:
                raise _Behind(brokers, partition, last, offsets)
        return after, found

    return await retried(brokers, "offsets", not_behind)


def _ids(topics: Topics) -> dict[str, str]:
    return {name: topic.topic_id for name, topic in topics.items()}


class _Behind(TryAgain):
    """A new leader's high watermark may be late for a moment."""

    final = LogDiverged

    def __init__(
        self, brokers: Brokers, partition: TopicPartition, known: KnownPartition, found: ListedOffsets
    ) -> None:
        super().__init__(
            f"{partition}: its high watermark is {found.high_watermark}, but earlier runs fetched it up to "
            f"{known.next_offset}: the log was truncated by an unclean leader election, or the topic was "
            f"recreated. {_choices(brokers, partition.topic)}"
        )


async def _listed(
    brokers: Brokers, leaders: Leaders, at: int, *, isolation: int = wire.READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for node, asked in _by_leader(leaders).items():
        request = wire.list_offsets(at, _by_topic(asked), isolation=isolation)
        for topic in (await brokers.ask(node, request))["topics"]:
            for each in topic["partitions"]:
                _check_code(brokers, topic["topic"], each["error_code"])
                found[TopicPartition(topic["topic"], each["partition"])] = each["offset"]
    if found.keys() != leaders.keys():
        raise TryAgain("a leader left out partitions that it was asked for")
    return found


async def _local_starts(brokers: Brokers, leaders: Leaders) -> dict[TopicPartition, LocalStart]:
    """Of partitions whose first segments are in tiered storage only; none of brokers that do not know it."""
    found: dict[TopicPartition, LocalStart] = {}
    for node, asked in _by_leader(leaders).items():
        with suppress(VersionMissing):
            firsts = await _starts_at(brokers, node, asked, wire.EARLIEST)
            locals_ = await _starts_at(brokers, node, asked, wire.EARLIEST_LOCAL)
            for at, (epoch, start) in firsts.items():
                if epoch >= 0 and locals_[at][1] > start:
                    found[at] = LocalStart(offset=locals_[at][1], first_epoch=(epoch, start))
    return found


async def _starts_at(
    brokers: Brokers, node: int, asked: list[TopicPartition], at: int
) -> dict[TopicPartition, tuple[int, int]]:
    """Leader epochs and offsets by partition; `TryAgain` for one without an answer."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    for topic in (await brokers.ask(node, wire.list_starts(at, _by_topic(asked))))["topics"]:
        for each in topic["partitions"]:
            _check_code(brokers, topic["topic"], each["error_code"])
            found[TopicPartition(topic["topic"], each["partition"])] = (each["leader_epoch"], each["offset"])
    if found.keys() != set(asked):
        raise TryAgain("a leader left out partitions that it was asked for")
    return found


def _check_code(brokers: Brokers, topic: str, code: int) -> None:
    if code == AUTHORIZATION_FAILED:
        raise ClusterDenied(_may_not(brokers, topic))
    if code:
        raise TryAgain(f"{topic}: {error_name(code)}")


def _by_leader(leaders: Leaders) -> dict[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition, leader in leaders.items():
        found[leader.node].append(partition)
    return found


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        found[partition.topic].append(partition.partition)
    return found


async def check_epochs(
    brokers: Brokers, fetched: Mapping[PartitionCut, Epochs], tries: int | None = None
) -> None:
    """Raises `LogDiverged` where a leader's log has less of an epoch than was fetched.

    `fetched` are epochs with the offset behind the last batch that was fetched of each. A cluster without
    OffsetForLeaderEpoch is not asked.
    """
    cuts = {TopicPartition(cut.topic, cut.partition): cut for cut in fetched}
    for number in range(max(map(len, fetched.values()), default=0)):
        asked = {at: fetched[cut][number] for at, cut in cuts.items() if number < len(fetched[cut])}
        ends = await _ends_of_epochs(brokers, {at: epoch for at, (epoch, _) in asked.items()}, tries)
        for at, found in ends.items():
            problem = _divergence(*asked[at], *found, is_compacted=cuts[at].is_compacted)
            if problem:
                raise LogDiverged(
                    f"source {brokers.source.name}: {cuts[at].name}: {problem}. {_choices(brokers, at.topic)}"
                )


async def _ends_of_epochs(
    brokers: Brokers, asked: Mapping[TopicPartition, int], tries: int | None
) -> dict[TopicPartition, tuple[int, int]]:
    """The largest epoch up to the asked one that the leader of each partition has, and where it ends."""

    async def ask() -> dict[TopicPartition, tuple[int, int]]:
        leaders = await _leaders(brokers, sorted({partition.topic for partition in asked}))
        chosen = {partition: leader for partition, leader in leaders.items() if partition in asked}
        found: dict[TopicPartition, tuple[int, int]] = {}
        for node, together in _by_leader(chosen).items():
            epochs: dict[str, list[tuple[int, int]]] = defaultdict(list)
            for partition in together:
                epochs[partition.topic].append((partition.partition, asked[partition]))
            for topic in (await brokers.ask(node, wire.end_of_epochs(epochs)))["topics"]:
                for each in topic["partitions"]:
                    _check_code(brokers, topic["topic"], each["error_code"])
                    end = each["leader_epoch"], each["end_offset"]
                    found[TopicPartition(topic["topic"], each["partition"])] = end
        if found.keys() != asked.keys():
            raise TryAgain("a leader left out partitions that it was asked for")
        return found

    try:
        return await retried(brokers, "leader epochs", ask, tries)
    except VersionMissing:
        return {}


def _divergence(epoch: int, fetched_to: int, found_epoch: int, end_offset: int, *, is_compacted: bool) -> str:
    """Why the leader's log is not the one that was fetched; empty if it is."""
    if end_offset < 0:
        return (
            f"offsets to {fetched_to - 1} of leader epoch {epoch} were fetched; the leader has no such epoch"
        )
    if end_offset < fetched_to:
        return (
            f"the leader's log has epoch {epoch} up to offset {end_offset}, but it was fetched up to "
            f"{fetched_to}: after an unclean leader election the cluster lost offsets {end_offset} to "
            f"{fetched_to - 1}, or replaced them"
        )
    # A replica that was copied after compaction does not have epochs without a batch.
    if found_epoch < epoch and not is_compacted:
        return (
            f"offsets up to {fetched_to - 1} of leader epoch {epoch} were fetched, but the leader's log has "
            f"none of that epoch, only of epoch {found_epoch} up to offset {end_offset}: after an unclean "
            "leader election the cluster replaced offsets"
        )
    return ""


def _choices(brokers: Brokers, topic: str) -> str:
    return (
        "To continue with the cluster's log, roll back the runs that have these offsets and remove their "
        f"folders below sources/{brokers.source.name}/ in the lake; or leave the topic out with "
        f"topics: {{exclude: [{topic}]}}; or use another lake"
    )


async def is_gone(brokers: Brokers, cut: PartitionCut) -> bool:
    """Whether the topic was deleted since the cut, or recreated."""
    topic = (await brokers.metadata([cut.topic])).topics.get(cut.topic)
    return topic is None or topic.error == UNKNOWN_TOPIC or is_recreated(cut, topic)


def is_recreated(cut: PartitionCut, topic: TopicMetadata) -> bool:
    """Whether a topic of the same name is another one than at the cut, as far as ids are known."""
    return bool(cut.topic_id and topic.topic_id and topic.topic_id != cut.topic_id)
