"""Cuts of a live cluster: their files, and when nothing may be fetched. No broker is asked here."""

from datetime import date
from pathlib import Path

import pytest

from spark_jobs.config.settings import Settings
from spark_jobs.kafka.formats.checkpoints import read_leader_epochs, read_offsets, read_partition_metadata
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.errors import ObjectMissing, OtherCluster, OutOfTurn
from spark_jobs.lake.layout import source_key
from spark_jobs.lake.manifest import ObjectRole
from spark_jobs.lake.object_store import ObjectStat, ObjectStore
from spark_jobs.lake.stores import open_lake
from spark_jobs.sources.cluster.cut import (
    CUT,
    FETCHED,
    PLAN,
    ClusterUnavailable,
    CutDates,
    KnownPartition,
    PartitionCut,
    PartitionFetched,
    Plan,
    cut_bytes,
    cut_dates,
    fetched_bytes,
    known_partitions,
    plan_bytes,
    read_plan,
    run_async,
)
from spark_jobs.sources.cluster.reader import files_of, remarks_of, share_of
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.source import Placed
from tests.broker.judge import free_port

FIRST, SECOND, THIRD = date(2026, 3, 1), date(2026, 3, 2), date(2026, 3, 3)
ORDERS = TopicPartition("orders", 0)
TOPIC_ID = "c3RyYW5nZS10b3BpYy1pZA"
TIMES = ("2026-03-01T00:00:00.000+00:00", "2026-03-01T00:00:01.000+00:00")


def cut_of(**changes: object) -> PartitionCut:
    given: dict[str, object] = {
        "topic": "orders",
        "partition": 0,
        "topic_id": TOPIC_ID,
        "start": 20,
        "end": 40,
        "log_start_offset": 5,
        "last_stable_offset": 38,
        "leader_epoch": 4,
        "expected": 20,
        "epochs": ((1, 5), (3, 12)),
    }
    return PartitionCut(**(given | changes))  # type: ignore[arg-type]


def fetched_of(**changes: object) -> PartitionFetched:
    given: dict[str, object] = {
        "topic": "orders",
        "partition": 0,
        "next_offset": 40,
        "log_start_offset": 5,
        "first_offset": 20,
        "epochs": ((1, 5), (3, 12), (4, 30)),
        "segments": ("00000000000000000020.log",),
    }
    return PartitionFetched(**(given | changes))  # type: ignore[arg-type]


def plan_of(day: date = FIRST, *cuts: PartitionCut, **changes: object) -> Plan:
    given: dict[str, object] = {"cluster_id": "abc", "data_times": TIMES, "coordinator_times": TIMES}
    return Plan(day=day, partitions=cuts or (cut_of(),), **(given | changes))  # type: ignore[arg-type]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A cluster that nobody answers for."""
    source = {"name": "live", "kind": "cluster", "bootstrap": f"127.0.0.1:{free_port()}"}
    return Settings.model_validate({"lake": str(tmp_path / "lake"), "sources": [source]})


@pytest.fixture
def lake(settings: Settings) -> ObjectStore:
    return open_lake(settings)


def put_cut(lake: ObjectStore, plan: Plan) -> None:
    lake.put(source_key("live", plan.day, PLAN), plan_bytes(plan))
    lake.put(source_key("live", plan.day, CUT), cut_bytes(plan, {ORDERS: fetched_of()}))


def test_a_plan_is_read_as_it_was_written(lake: ObjectStore) -> None:
    known = {TopicPartition("gone", 1): KnownPartition(topic_id="", next_offset=7, epochs=((0, 0),))}
    plan = plan_of(denied=("__transaction_state",), known=known, notes=("a note",))
    lake.put(source_key("live", FIRST, PLAN), plan_bytes(plan))
    assert read_plan(lake, "live", FIRST) == plan
    assert read_plan(lake, "live", SECOND) is None


def test_a_cut_knows_what_all_cuts_so_far_have(lake: ObjectStore) -> None:
    gone = KnownPartition(topic_id="", next_offset=7, epochs=((0, 0),))
    put_cut(lake, plan_of(known={TopicPartition("gone", 1): gone}))
    assert known_partitions(lake, "live", FIRST) == {
        TopicPartition("gone", 1): gone,
        ORDERS: KnownPartition(topic_id=TOPIC_ID, next_offset=40, epochs=((1, 5), (3, 12), (4, 30))),
    }
    assert cut_dates(lake, "live") == CutDates(complete=(FIRST,), planned=())


def test_a_date_with_a_cut_asks_no_broker(settings: Settings, lake: ObjectStore) -> None:
    put_cut(lake, plan_of(SECOND))
    reader_of(settings.source("live")).bring_in(SECOND, lake, None)


@pytest.mark.parametrize("name", [PLAN, CUT])
def test_a_date_before_one_with_a_cut_names_the_folder_of_the_later_one(
    settings: Settings, lake: ObjectStore, name: str
) -> None:
    put_cut(lake, plan_of(SECOND))
    if name == PLAN:
        lake.delete(source_key("live", SECOND, CUT))
    with pytest.raises(OutOfTurn, match="remove the folder sources/live/2026-03-02"):
        reader_of(settings.source("live")).bring_in(FIRST, lake, None)
    assert [each.key for each in lake.list(source_key("live", FIRST))] == []


def test_folders_that_are_no_complete_cut_are_not_listed(settings: Settings, lake: ObjectStore) -> None:
    put_cut(lake, plan_of(FIRST))
    for folder in ("2026-03-01", "2026-03-02", "2026-03-01.bak", "2026-02-31"):
        lake.put(f"sources/live/{folder}/orders-0/00000000000000000020.log", b"")
    for folder in ("2026-03-01.bak", "2026-02-31"):
        lake.put(f"sources/live/{folder}/{CUT}", b"{}")
    assert cut_dates(lake, "live") == CutDates(complete=(FIRST,), planned=())
    listed = {
        each.key.partition("/")[0]
        for each in reader_of(settings.source("live")).objects(settings, FIRST, THIRD)
    }
    assert listed == {"2026-03-01"}


def test_a_cut_that_no_run_has_taken_needs_its_segments_before_a_later_one_is_read(
    settings: Settings, lake: ObjectStore
) -> None:
    reader, source = reader_of(settings.source("live")), settings.source("live")
    segment, placed = source_key("live", FIRST, "orders-0", "00000000000000000020.log"), []
    lake.put(source_key("live", FIRST, "orders-0", FETCHED), fetched_bytes(fetched_of()))
    lake.put(segment, b"")
    for day in (FIRST, SECOND):
        put_cut(lake, plan_of(day))
        stat = ObjectStat(key=f"{day}/{CUT}", size=0, version="1")
        placed.append(Placed(source=source, stat=stat, role=ObjectRole.LOG_DIRECTORY, day=day))
    assert list(reader.describe(placed, settings)) == placed
    lake.delete(segment)
    with pytest.raises(ObjectMissing, match="neither 2026-03-01 nor a later date can run again"):
        list(reader.describe(placed, settings))
    assert list(reader.describe(placed[1:], settings)) == placed[1:]


def test_another_cluster_is_refused_before_it_is_planned(
    settings: Settings, lake: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_cut(lake, plan_of(FIRST, cluster_id="before"))

    async def planned(*_: object) -> Plan:
        return plan_of(SECOND)

    monkeypatch.setattr("spark_jobs.sources.cluster.planning.make_plan", planned)
    with pytest.raises(
        OtherCluster, match="are of cluster abc, but earlier runs fetched from cluster before"
    ):
        reader_of(settings.source("live")).bring_in(SECOND, lake, None)
    assert read_plan(lake, "live", SECOND) is None


@pytest.mark.parametrize(("limit", "share"), [(None, 0), (1024, 1), (4_000_000, 1000)])
def test_a_limit_never_becomes_no_limit_by_sharing_it(limit: int | None, share: int) -> None:
    assert share_of(limit, 4000) == share


def test_the_next_date_asks_the_brokers(
    settings: Settings, lake: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.sources.cluster.planning.TRIES", 1)
    put_cut(lake, plan_of(SECOND))
    with pytest.raises(ClusterUnavailable, match="no broker answers"):
        reader_of(settings.source("live")).bring_in(THIRD, lake, None)


def test_a_fetch_may_begin_where_a_loop_is_running(
    settings: Settings, lake: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.sources.cluster.planning.TRIES", 1)

    async def in_a_notebook() -> None:
        reader_of(settings.source("live")).bring_in(FIRST, lake, None)

    with pytest.raises(ClusterUnavailable, match="no broker answers"):
        run_async(in_a_notebook())


def test_a_topic_that_is_left_out_after_the_cut_was_made_does_not_stop_it(
    settings: Settings, lake: ObjectStore
) -> None:
    lake.put(source_key("live", FIRST, PLAN), plan_bytes(plan_of()))
    source = settings.source("live").model_dump(include={"name", "kind", "bootstrap"})
    without = Settings.model_validate(
        {"lake": settings.lake, "sources": [{**source, "topics": {"exclude": ["orders"]}}]}
    )
    reader_of(without.source("live")).bring_in(FIRST, lake, None)
    assert known_partitions(lake, "live", FIRST)[ORDERS].next_offset == cut_of().start


def test_files_are_those_of_a_brokers_directory() -> None:
    files = dict(files_of(plan_of(), {ORDERS: fetched_of()}))
    assert read_partition_metadata(files["orders-0/partition.metadata"]).topic_id == TOPIC_ID
    epochs = read_leader_epochs(files["orders-0/leader-epoch-checkpoint"])
    assert [(each.epoch, each.start_offset) for each in epochs] == [(1, 5), (3, 12), (4, 30)]
    assert read_offsets(files["log-start-offset-checkpoint"]) == ()
    assert b"cluster.id=abc" in files["meta.properties"]


def test_a_log_that_starts_behind_the_last_cut_is_checkpointed_there() -> None:
    fetched = fetched_of(log_start_offset=26, first_offset=26)
    files = dict(files_of(plan_of(FIRST, cut_of(start=26, log_start_offset=26)), {ORDERS: fetched}))
    assert [each.offset for each in read_offsets(files["log-start-offset-checkpoint"])] == [26]
    epochs = read_leader_epochs(files["orders-0/leader-epoch-checkpoint"])
    assert (epochs[0].epoch, epochs[0].start_offset) == (3, 26)


def test_a_log_that_starts_inside_its_first_batch_is_checkpointed_there() -> None:
    cut = cut_of(start=6, log_start_offset=6, expected=-1, epochs=())
    files = dict(files_of(plan_of(FIRST, cut), {ORDERS: fetched_of(log_start_offset=6, first_offset=4)}))
    assert [each.offset for each in read_offsets(files["log-start-offset-checkpoint"])] == [6]


def test_only_segments_and_facts_are_placed(settings: Settings) -> None:
    reader = reader_of(settings.source("live"))

    def role(key: str) -> ObjectRole | None:
        placed = reader.place(ObjectStat(key=key, size=1, version="1"))
        assert placed is None or isinstance(placed, Placed)
        return None if placed is None else placed.role

    assert role("2026-03-01/orders-0/00000000000000000020.log") is ObjectRole.LOG
    assert role("2026-03-01/cut.json") is ObjectRole.LOG_DIRECTORY
    assert role("2026-03-01/plan.json") is None
    assert role("2026-03-01/orders-0/fetched.json") is None


def test_remarks_name_what_a_person_should_know() -> None:
    facts = {
        "denied": ["__transaction_state", "__consumer_offsets"],
        "notes": ["leaders changed since the last run: orders-0"],
        "partitions": [
            {"topic": "orders", "partition": 0, "expected": 20, "log_start_offset": 26, "is_gone": False},
            {"topic": "old", "partition": 1, "expected": 3, "log_start_offset": 0, "is_gone": True},
        ],
    }
    told = list(remarks_of("live", facts))
    assert len(told) == 5
    assert "markers alone decide" in told[0]
    assert "consumer_offsets gets no new rows" in told[1]
    assert told[3].endswith("orders-0 20 to 25")
    assert told[4].endswith("old-1")
