"""A log that changes its history while it is planned or fetched: unclean elections, recreated topics.

No broker runs here, since an election has to happen between two requests: `Scripted` answers each request
from a log in memory, with Kafka's own rule for the end of an epoch.
"""

import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.offset import OffsetRequest

from spark_jobs.config.settings import Settings
from spark_jobs.config.sources import TopicFilter
from spark_jobs.kafka.formats.checkpoints import EpochEntry, LeaderEpochs
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.errors import OtherCluster
from spark_jobs.lake.layout import source_key
from spark_jobs.lake.object_store import ObjectStore
from spark_jobs.lake.stores import open_lake
from spark_jobs.sources.cluster import fetching, planning
from spark_jobs.sources.cluster.brokers import Brokers, ClusterMetadata, LeaderOf, TopicMetadata
from spark_jobs.sources.cluster.cut import (
    ClusterDenied,
    ClusterUnavailable,
    KnownPartition,
    LogDiverged,
    PartitionCut,
    PartitionFetched,
    Plan,
    check_cluster,
    cut_bytes,
    run_async,
)
from spark_jobs.sources.cluster.fetching import ClusterFetchTask, fetch_partitions
from spark_jobs.sources.cluster.planning import check_epochs, make_plan
from spark_jobs.sources.cluster.reader import remarks_of
from spark_jobs.sources.cluster.replies import ReplyBatches, SegmentWriter
from spark_jobs.sources.cluster.wire import EARLIEST, Ask, ListOffsetsRequest_v8
from tests.sources.test_cluster_cuts import cut_of
from tests.sources.test_cluster_replies import batch

DAY = date(2026, 3, 1)
FETCHED = PartitionFetched(topic="orders", partition=0, next_offset=20, log_start_offset=0)
OLD, NEW = "old-topic-id", "new-topic-id"
NOT_LEADER, DENIED, UNKNOWN_TOPIC = 6, 29, 3


class Scripted(Brokers):
    """One partition `orders-0` of batches with two records, by the epoch of each; `before` sees requests."""

    def __init__(self, settings: Settings, log: Mapping[int, int]) -> None:
        super().__init__(settings.source("live"))
        self.log, self.topic_id, self.epoch = dict(log), OLD, max(log.values())
        self.partitions, self.errors = 1, dict[str, int]()
        self.config_errors: list[int] = []
        self.before: Callable[[Any], int] = lambda _: 0
        self.local = min(log)
        self.leader, self.is_deleted, self.epoch_known = 1, False, True
        self.before_metadata: Callable[[], None] = lambda: None
        self.change: Callable[[int, bytes], bytes] = lambda _, data: data
        self.others: tuple[str, ...] = ()

    @property
    def end(self) -> int:
        return max(self.log) + 2

    @property
    def epochs(self) -> LeaderEpochs:
        found = LeaderEpochs()
        for offset, epoch in sorted(self.log.items()):
            found = found.assign(epoch, offset)
        return LeaderEpochs(entries=(*found.entries, *self._own(found)))

    def _own(self, found: LeaderEpochs) -> tuple[EpochEntry, ...]:
        is_new = self.epoch > found.latest_epoch
        return (EpochEntry(epoch=self.epoch, start_offset=self.end),) if is_new else ()

    async def metadata(self, topics: Any = None) -> ClusterMetadata:
        self.before("metadata")
        self.before_metadata()
        leader = LeaderOf(node=self.leader, epoch=self.epoch if self.epoch_known else -1)
        leaders = dict.fromkeys(range(self.partitions), leader)
        found = {
            name: TopicMetadata(name=name, topic_id=self.topic_id, error=0, leaders=leaders)
            for name in ("orders", *self.others)
            if not self.is_deleted
        }
        for name in topics or ():
            if name not in found:
                error = self.errors.get(name, UNKNOWN_TOPIC)
                found[name] = TopicMetadata(name=name, topic_id="", error=error, leaders={})
        return ClusterMetadata(cluster_id="abc", topics=found)

    async def any(self, request: Any) -> dict[str, Any]:
        del request
        if self.config_errors:
            raise OSError(self.config_errors.pop())
        entry = {"config_value": "compact"}
        return {"resources": [{"resource_name": "orders", "error_code": 0, "config_entries": [entry]}]}

    async def ask(self, node: int, request: Any) -> dict[str, Any]:
        del node
        code = self.before(request)
        if isinstance(request, FetchRequest):
            return self._fetched(request, code)
        if isinstance(request, OffsetRequest):
            return self._listed(request, code)
        assert isinstance(request, Ask)
        if request.choices[0][0] is ListOffsetsRequest_v8:
            at = request.choices[0][1]()[2][0][1][0][2]
            offset = min(self.log) if at == EARLIEST else self.local
            return _about(topic="orders", error_code=code, offset=offset, leader_epoch=self.log[offset])
        number, _, epoch = request.choices[0][1]()[1][0][1][0]
        found, end = self.epochs.end_offset_for(epoch, self.end)
        return _about(number, topic="orders", error_code=code, leader_epoch=found, end_offset=end)

    def _fetched(self, request: Any, code: int) -> dict[str, Any]:
        position, number = position_of(request), request.topics[0][1][0][0]
        data = b"".join(
            batch(base, epoch=epoch) for base, epoch in sorted(self.log.items()) if base >= position
        )
        data = self.change(position, data[: len(batch(0)) * 2])
        reply = _about(number, error_code=code, message_set=b"" if code else data)
        reply["topics"][0]["topics"] = request.topics[0][0]
        return reply

    def _listed(self, request: Any, code: int) -> dict[str, Any]:
        topics = []
        for topic, asked in _topics_of(request):
            offset = min(self.log) if asked[0][1] == EARLIEST else self.end
            (found,) = _about(topic=topic, error_code=code, offset=offset)["topics"]
            found["partitions"] = [{**found["partitions"][0], "partition": number} for number, _ in asked]
            topics.append(found)
        return {"throttle_time_ms": 0, "topics": topics}

    def elect(self, truncated_to: int, until: int) -> None:
        """Another leader: it has offsets up to `truncated_to`, and has written up to `until`."""
        self.epoch += 1
        self.log = {base: epoch for base, epoch in self.log.items() if base < truncated_to}
        self.log |= dict.fromkeys(range(truncated_to, until, 2), self.epoch)


def position_of(request: Any) -> int:
    """The offset that a Fetch request asks for."""
    position: int = request.topics[0][1][0][1]
    return position


def _is_fetch_of(request: Any, topic: str) -> bool:
    return isinstance(request, FetchRequest) and _name_in(request) == topic


def _name_in(request: Any) -> str:
    name: str = request.topics[0][0]
    return name


def _topics_of(request: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    """The topics of a ListOffsets request."""
    found: list[tuple[str, list[tuple[int, int]]]] = request._topics
    return found


def _about(number: int = 0, *, topic: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "throttle_time_ms": 0,
        "topics": [{"topic": topic, "partitions": [{"partition": number, **fields}]}],
    }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    topics = {"include": ["orders", "payments"]}
    source = {"name": "live", "kind": "cluster", "bootstrap": "127.0.0.1:1", "topics": topics}
    return Settings.model_validate({"lake": str(tmp_path / "lake"), "sources": [source]})


@pytest.fixture
def lake(settings: Settings) -> ObjectStore:
    return open_lake(settings)


@pytest.fixture
def cluster(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Epoch 7 wrote offsets 0 to 19."""
    scripted = Scripted(settings, dict.fromkeys(range(0, 20, 2), 7))
    monkeypatch.setattr(fetching, "Brokers", lambda _: scripted)
    monkeypatch.setattr(planning, "FIRST_PAUSE", 0.0)
    return scripted


CUT = cut_of(
    topic_id=OLD, start=10, end=20, log_start_offset=0, leader_epoch=7, expected=10, epochs=((7, 0),)
)


def fetch(cluster: Scripted, lake: ObjectStore, cut: PartitionCut = CUT) -> PartitionFetched:
    task = ClusterFetchTask(source=cluster.source, lake=lake, day=DAY, cuts=(cut,), cluster_id="abc")
    return fetch_partitions(task)[0]


def segments(lake: ObjectStore) -> list[str]:
    return [each.key for each in lake.list(source_key("live", DAY)) if each.key.endswith(".log")]


def at_fetch(cluster: Scripted, position: int, change: Callable[[], None], code: int = 0) -> None:
    """Before the first fetch at `position` something changes, and that fetch is answered with `code`."""
    pending = [position]

    def before(request: Any) -> int:
        is_it = isinstance(request, FetchRequest) and position_of(request) in pending
        if not is_it:
            return 0
        pending.clear()
        change()
        return code

    cluster.before = before


def test_a_log_that_stays_is_fetched_to_its_end(cluster: Scripted, lake: ObjectStore) -> None:
    found = fetch(cluster, lake)
    assert (found.next_offset, found.is_gone, found.epochs) == (20, False, ((7, 0),))
    assert len(segments(lake)) == 1


def test_a_late_attempt_changes_nothing(cluster: Scripted, lake: ObjectStore) -> None:
    found, before = fetch(cluster, lake), contents(lake)
    assert fetch(cluster, lake) == found
    assert contents(lake) == before


def test_an_attempt_that_another_one_overtakes_changes_nothing(cluster: Scripted, lake: ObjectStore) -> None:
    """As with speculation: the second attempt is complete while the first one waits for a reply."""
    overtaking: list[PartitionFetched] = []
    kept: list[dict[str, bytes]] = []

    def overtake() -> None:
        with ThreadPoolExecutor(1) as thread:
            overtaking.append(thread.submit(fetch, cluster, lake).result())
        kept.append(contents(lake))

    at_fetch(cluster, 14, overtake)
    assert [fetch(cluster, lake)] == overtaking
    assert [contents(lake)] == kept


def contents(lake: ObjectStore) -> dict[str, bytes]:
    return {each.key: lake.read(each.key) for each in lake.list(source_key("live", DAY))}


def test_a_task_keeps_two_replies_of_four_partitions_at_most(
    cluster: Scripted, lake: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, written, most, lock = [0], [0], [0], threading.Lock()
    write, full = SegmentWriter.write, threading.Event()

    def before(request: Any) -> int:
        with lock:
            asked[0] += isinstance(request, FetchRequest)
            most[0] = max(most[0], asked[0] - written[0])
        if most[0] >= 2 * fetching.CONCURRENT:
            full.set()
        return 0

    def note(writer: SegmentWriter, taken: ReplyBatches) -> None:
        assert full.wait(60)  # nothing is written before each partition has two requests
        write(writer, taken)
        with lock:
            written[0] += 1

    cluster.before, cluster.partitions = before, 12
    monkeypatch.setattr(SegmentWriter, "write", note)
    cuts = tuple(replace(CUT, partition=number) for number in range(cluster.partitions))
    task = ClusterFetchTask(source=cluster.source, lake=lake, day=DAY, cuts=cuts, cluster_id="abc")
    assert {each.next_offset for each in fetch_partitions(task)} == {20}
    assert most[0] == 2 * fetching.CONCURRENT


def test_a_clean_election_during_the_fetch_is_no_news(cluster: Scripted, lake: ObjectStore) -> None:
    at_fetch(cluster, 14, lambda: cluster.elect(20, 30), NOT_LEADER)
    assert fetch(cluster, lake, replace(CUT, end=26)).epochs == ((7, 0), (8, 20))


@pytest.mark.parametrize("code", [NOT_LEADER, 0])
def test_two_histories_are_never_merged(cluster: Scripted, lake: ObjectStore, code: int) -> None:
    """The new leader lacks offsets 12 and 13 that were fetched, and has grown past them."""
    at_fetch(cluster, 14, lambda: cluster.elect(12, 30), code)
    with pytest.raises(LogDiverged, match=r"epoch 7 up to offset 12, but it was fetched up to 14") as error:
        fetch(cluster, lake)
    assert "sources/live/" in str(error.value)
    assert segments(lake) == []


def test_an_election_between_plan_and_fetch_is_checked_before_the_first_fetch(
    cluster: Scripted, lake: ObjectStore
) -> None:
    cluster.elect(8, 30)
    asked: list[Any] = []

    def note(request: Any) -> int:
        asked.append(request)
        return 0

    cluster.before = note
    with pytest.raises(LogDiverged, match=r"lost offsets 8 to 9, or replaced them"):
        fetch(cluster, lake)
    assert not any(isinstance(each, FetchRequest) for each in asked)


def test_every_epoch_that_was_fetched_is_asked_for(cluster: Scripted, lake: ObjectStore) -> None:
    """Two elections at once: the last epoch that was fetched is whole, the one before it is not."""
    cluster.elect(16, 18)
    cut = replace(CUT, leader_epoch=8, end=24)

    def change() -> None:
        cluster.log = dict.fromkeys(range(0, 14, 2), 7) | dict.fromkeys(range(14, 24, 2), 8)

    at_fetch(cluster, 18, change)
    with pytest.raises(LogDiverged, match=r"epoch 7 up to offset 14, but it was fetched up to 16"):
        fetch(cluster, lake, cut)


@pytest.mark.parametrize("position", [10, 14])
def test_a_topic_that_is_recreated_meanwhile_is_not_mixed_with_the_old_one(
    cluster: Scripted, lake: ObjectStore, position: int
) -> None:
    at_fetch(cluster, position, lambda: setattr(cluster, "topic_id", NEW))
    found = fetch(cluster, lake)
    assert (found.next_offset, found.is_gone, found.segments) == (10, True, ())
    assert segments(lake) == []


@pytest.mark.parametrize("position", [10, 14])
def test_a_topic_that_is_deleted_meanwhile_keeps_what_was_fetched(
    cluster: Scripted, lake: ObjectStore, position: int
) -> None:
    at_fetch(cluster, position, lambda: setattr(cluster, "is_deleted", True), UNKNOWN_TOPIC)
    found = fetch(cluster, lake)
    assert (found.next_offset, found.is_gone) == (position, True)
    assert len(segments(lake)) == (position > 10)


def test_a_partition_without_a_leader_is_fetched_once_it_has_one(
    cluster: Scripted, lake: ObjectStore
) -> None:
    asked = count(1)

    def elect_later() -> None:
        cluster.leader = 1 if next(asked) > 3 else -1

    at_fetch(cluster, 14, lambda: setattr(cluster, "before_metadata", elect_later), NOT_LEADER)
    assert fetch(cluster, lake).next_offset == 20
    assert next(asked) > 4


def test_a_partition_that_never_gets_a_leader_is_an_error_that_may_pass(
    cluster: Scripted, lake: ObjectStore
) -> None:
    at_fetch(cluster, 14, lambda: setattr(cluster, "leader", -1), NOT_LEADER)
    with pytest.raises(ClusterUnavailable, match=r"orders-0 at offset 14: no progress .* no leader") as error:
        fetch(cluster, lake)
    assert error.value.transient
    cluster.leader = 1
    assert fetch(cluster, lake).next_offset == 20


def test_a_changed_leader_epoch_is_no_divergence_where_the_leaders_own_is_unknown(
    cluster: Scripted, lake: ObjectStore
) -> None:
    """Metadata before v7 has no leader epochs."""
    cluster.epoch_known, last = False, len(batch(0))
    changes = {10: last + 15, 14: 15, 16: 14, 18: 13}

    def change(position: int, data: bytes) -> bytes:
        place = changes.pop(position, None)
        if place is None:
            return data
        changed = bytearray(data)
        changed[place] ^= 8
        return bytes(changed)

    cluster.change = change
    found = fetch(cluster, lake, replace(CUT, leader_epoch=-1))
    assert (found.next_offset, found.epochs) == (20, ((7, 0),))
    assert lake.read(segments(lake)[0]) == b"".join(batch(base, epoch=7) for base in range(10, 20, 2))
    assert len(changes) < 3


@pytest.mark.parametrize(
    ("log", "start"),
    [({0: 7, 10: 8}, 0), ({10: 8}, 0), ({0: 7, 2: 7, 10: 8}, 4), ({0: 7, 2: 8, 10: 8}, 0)],
)
def test_a_hole_in_front_of_a_new_leader_epoch_is_fetched(
    cluster: Scripted, lake: ObjectStore, log: dict[int, int], start: int
) -> None:
    """Both have to be confirmed by a second reply, one after the other."""
    cluster.log, cluster.epoch = log, 8
    cut = replace(CUT, start=start, expected=start, end=12, leader_epoch=8, epochs=((7, 0),) if start else ())
    found = fetch(cluster, lake, cut)
    assert found.next_offset == 12
    whole = b"".join(batch(base, epoch=epoch) for base, epoch in log.items() if base >= start)
    assert b"".join(map(lake.read, segments(lake))) == whole


def test_a_topic_that_was_recreated_after_the_plan_is_not_fetched(
    cluster: Scripted, lake: ObjectStore
) -> None:
    cluster.topic_id = NEW
    at_fetch(cluster, 10, lambda: pytest.fail("fetched"))
    assert fetch(cluster, lake).is_gone


def check(cluster: Scripted, epoch: int, end: int, **changes: Any) -> None:
    run_async(check_epochs(cluster, {replace(CUT, **changes): ((epoch, end),)}))


def test_an_epoch_that_the_leader_does_not_have_is_a_divergence(cluster: Scripted) -> None:
    check(cluster, 7, 20)
    with pytest.raises(LogDiverged, match="the leader has no such epoch"):
        check(cluster, 8, 20)
    cluster.log |= {20: 9}
    cluster.epoch = 9
    with pytest.raises(LogDiverged, match="has none of that epoch, only of epoch 7"):
        check(cluster, 8, 20)
    check(cluster, 8, 20, is_compacted=True)


def plan(cluster: Scripted, known: Mapping[TopicPartition, KnownPartition] | None = None) -> Plan:
    return run_async(make_plan(cluster, DAY, known or {}, lambda topic: topic == "compacted"))


def at_last_offsets(cluster: Scripted, change: Callable[[], None]) -> None:
    """Before the high watermarks are read, but after the other offsets, something changes."""
    requests = count(1)

    def before(request: Any) -> int:
        if isinstance(request, OffsetRequest) and next(requests) == 3:
            change()
        return 0

    cluster.before = before


def test_a_topic_that_is_recreated_while_it_is_planned_is_planned_again(cluster: Scripted) -> None:
    def recreate() -> None:
        cluster.topic_id, cluster.epoch, cluster.log = NEW, 0, {0: 0, 2: 0}

    at_last_offsets(cluster, recreate)
    (cut,) = plan(cluster).partitions
    assert (cut.topic_id, cut.last_stable_offset, cut.end, cut.leader_epoch) == (NEW, 4, 4, 0)


def test_a_partition_that_is_added_while_it_is_planned_is_planned(cluster: Scripted) -> None:
    at_last_offsets(cluster, lambda: setattr(cluster, "partitions", 2))
    assert [cut.name for cut in plan(cluster).partitions] == ["orders-0", "orders-1"]


def test_data_topics_are_cut_before_the_coordinators_and_schemas(cluster: Scripted) -> None:
    cluster.others = ("__transaction_state", "_schemas", "payments", "__consumer_offsets")
    cluster.source = cluster.source.model_copy(update={"topics": TopicFilter()})
    asked: list[str] = []

    def note(request: Any) -> int:
        if isinstance(request, OffsetRequest):
            asked.extend(topic for topic, _ in _topics_of(request))
        return 0

    cluster.before = note
    found = plan(cluster)
    later = {"__transaction_state", "_schemas", "__consumer_offsets"}
    assert set(asked) == {"orders", "payments", *later}
    is_later = [topic in later for topic in asked]
    assert is_later == sorted(is_later)
    assert found.data_times[1] == found.coordinator_times[0]
    assert {cut.topic for cut in found.partitions} == set(asked)


@pytest.mark.parametrize("include", ["*", "_schemas"])
def test_schemas_that_may_not_be_read_are_named_and_left_out(cluster: Scripted, include: str) -> None:
    cluster.source = cluster.source.model_copy(update={"topics": TopicFilter(include=("orders", include))})
    if include == "*":
        cluster.others = ("_schemas",)
        cluster.before = lambda request: DENIED if _is_fetch_of(request, "_schemas") else 0
    else:
        cluster.errors["_schemas"] = DENIED
    found = plan(cluster)
    assert {cut.topic for cut in found.partitions} == {"orders"}
    assert found.denied == ("_schemas",)
    facts = json.loads(cut_bytes(found, {TopicPartition("orders", 0): FETCHED}))
    (remark,) = (each for each in remarks_of("live", facts) if "may not read" in each)
    assert remark == "live: the principal may not read _schemas: its table gets no new rows"


def test_a_log_that_is_behind_names_the_choices(cluster: Scripted) -> None:
    known = {TopicPartition("orders", 0): KnownPartition(topic_id=OLD, next_offset=50, epochs=((7, 0),))}
    with pytest.raises(
        LogDiverged, match=r"its high watermark is 20.*remove their folders below sources/live/"
    ):
        plan(cluster, known)


def test_a_topic_that_include_names_is_absent_or_denied(cluster: Scripted) -> None:
    assert "topics that the cluster does not have: payments" in " ".join(plan(cluster).notes)
    cluster.errors["payments"] = DENIED
    with pytest.raises(ClusterDenied, match="may not read the topic payments"):
        plan(cluster)


@pytest.mark.parametrize(("failures", "is_compacted"), [(0, True), (2, True), (20, False)])
def test_cleanup_policies_are_asked_for_again(cluster: Scripted, failures: int, is_compacted: bool) -> None:
    cluster.config_errors = [5] * failures
    found = plan(cluster)
    assert [cut.is_compacted for cut in found.partitions] == [is_compacted]
    noted = "cleanup.policy could not be read of orders" in " ".join(found.notes)
    assert noted is not is_compacted


def test_cleanup_policy_may_be_a_setting(cluster: Scripted) -> None:
    cluster.config_errors = [5] * 20
    found = run_async(make_plan(cluster, DAY, {}, lambda _: True))
    assert [cut.is_compacted for cut in found.partitions] == [True]
    assert "cleanup.policy" not in " ".join(found.notes)


def test_a_new_partition_begins_where_local_segments_do_if_another_source_reads_the_tier(
    cluster: Scripted,
) -> None:
    cluster.log, cluster.local = {0: 5, 2: 5, 4: 7, 6: 7}, 4
    (cut,) = run_async(make_plan(cluster, DAY, {}, lambda _: False, lambda _: True)).partitions
    assert (cut.start, cut.log_start_offset, cut.epochs) == (4, 0, ((5, 0),))
    (cut,) = run_async(make_plan(cluster, DAY, {}, lambda _: False, lambda _: False)).partitions
    assert (cut.start, cut.epochs) == (0, ())
    known = {TopicPartition("orders", 0): KnownPartition(topic_id=OLD, next_offset=2, epochs=((5, 0),))}
    (cut,) = run_async(make_plan(cluster, DAY, known, lambda _: False, lambda _: True)).partitions
    assert (cut.start, cut.epochs) == (2, ((5, 0),))


def test_another_cluster_is_refused(cluster: Scripted, lake: ObjectStore) -> None:
    check_cluster(cluster.source, "", "abc")
    task = ClusterFetchTask(source=cluster.source, lake=lake, day=DAY, cuts=(CUT,), cluster_id="other")
    with pytest.raises(OtherCluster, match=r"bootstrap \(127\.0\.0\.1:1\) are of cluster abc"):
        fetch_partitions(task)
