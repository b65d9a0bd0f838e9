from datetime import date
from typing import Any

import pytest

from spark_jobs.config.sources import Source
from spark_jobs.lake.manifest import NO_PARTITION, ObjectRole, SetAside, StageProblem
from spark_jobs.lake.object_store import ObjectStat
from spark_jobs.sources.registry import reader_of
from spark_jobs.sources.source import Placed, split_date

SEGMENT = "00000000000000000042"


def source(kind: str, **settings: Any) -> Source:
    return Source.model_validate({"name": "s", "kind": kind, "root": "/data", **settings})


def placed(where: Source, path: str) -> Placed | StageProblem | None:
    return reader_of(where).place(ObjectStat(key=path, size=1, version="v"))


@pytest.mark.parametrize(
    "path", ["orders-0/a", "gateway/eu/orders-0/a", "orders-0/naïve объект 注文", "x/orders-0/a b"]
)
def test_a_capture_object_is_directly_in_its_partitions_directory(path: str) -> None:
    found = placed(source("capture"), path)
    assert isinstance(found, Placed)
    assert (found.role, found.topic, found.partition, found.day) == (ObjectRole.CAPTURE, "orders", 0, None)


@pytest.mark.parametrize(
    ("directory", "topic", "partition"),
    [
        ("a-b-3", "a-b", 3),
        ("a.b_c-0", "a.b_c", 0),
        ("-0-1", "-0", 1),
        ("__transaction_state-49", "__transaction_state", 49),
    ],
)
def test_a_directory_is_split_at_its_last_dash(directory: str, topic: str, partition: int) -> None:
    found = placed(source("capture"), f"{directory}/object")
    assert isinstance(found, Placed)
    assert (found.topic, found.partition) == (topic, partition)


@pytest.mark.parametrize(
    "path",
    ["object", "orders/object", "orders-0/deeper/object", "orders-x/o", "зак-0/o", "orders-0.abc-delete/o"],
)
def test_a_capture_object_elsewhere_is_set_aside(path: str) -> None:
    found = placed(source("capture"), path)
    assert isinstance(found, StageProblem)
    assert (found.reason, found.path) == (SetAside.NO_PARTITION, path)
    assert "<topic>-<partition>" in found.detail


@pytest.mark.parametrize("name", ["_SUCCESS", ".object.part", "_temporary"])
def test_a_writers_own_files_are_nobodys_business(name: str) -> None:
    assert placed(source("capture"), f"orders-0/{name}") is None


@pytest.mark.parametrize(
    "path", ["orders-0/a\nb", "orders-0/a\0b", "orders-0/\udcff", "orders-0/../x", "/orders-0/a"]
)
def test_a_hostile_name_is_set_aside_and_shown_escaped(path: str) -> None:
    found = placed(source("capture"), path)
    assert isinstance(found, StageProblem)
    assert found.reason is SetAside.UNSAFE_NAME
    assert found.detail.isprintable()


def test_what_is_no_file_is_set_aside() -> None:
    stat = ObjectStat(key="orders-0/a", size=0, version="", problem="not a regular file")
    found = reader_of(source("capture")).place(stat)
    assert isinstance(found, StageProblem)
    assert found.reason is SetAside.NOT_A_FILE


@pytest.mark.parametrize("kind", ["capture", "broker-log"])
def test_topics_are_chosen_by_pattern_but_coordinator_logs_always_come(kind: str) -> None:
    chosen = source(kind, topics={"include": ["order*"], "exclude": ["*-test"]})
    taken = [
        topic
        for topic in (
            "orders",
            "orders-test",
            "clicks",
            "__transaction_state",
            "__consumer_offsets",
            "__other",
        )
        if isinstance(placed(chosen, f"{topic}-0/{SEGMENT}.log"), Placed)
    ]
    assert taken == ["orders", "__transaction_state", "__consumer_offsets"]


@pytest.mark.parametrize(
    ("name", "role"),
    [
        (f"{SEGMENT}.log", ObjectRole.LOG),
        (f"{SEGMENT}.log.swap", ObjectRole.SWAP),
        (f"{SEGMENT}.snapshot", ObjectRole.SNAPSHOT),
        (f"{SEGMENT}.txnindex", ObjectRole.TXN_INDEX),
        ("leader-epoch-checkpoint", ObjectRole.LEADER_EPOCHS),
        ("partition.metadata", ObjectRole.PARTITION_METADATA),
    ],
)
def test_a_partitions_files_have_their_roles(name: str, role: ObjectRole) -> None:
    found = placed(source("broker-log"), f"broker-1/orders-0/{name}")
    assert isinstance(found, Placed)
    assert (found.role, found.topic, found.partition) == (role, "orders", 0)


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
        ".kafka_cleanshutdown",
        "meta.properties",
    ],
)
def test_a_log_directorys_own_files_come_without_a_topic(name: str) -> None:
    for path in (name, f"broker-1/{name}"):
        found = placed(source("broker-log"), path)
        assert isinstance(found, Placed)
        assert (found.role, found.topic, found.partition) == (ObjectRole.LOG_DIRECTORY, "", NO_PARTITION)


@pytest.mark.parametrize(
    "path",
    [
        f"orders-0/{SEGMENT}.index",
        f"orders-0/{SEGMENT}.timeindex",
        f"orders-0/{SEGMENT}.log.deleted",
        f"orders-0/{SEGMENT}.log.cleaned",
        f"orders-0.0123abcd-delete/{SEGMENT}.log",
        f"orders-0.0123abcd-future/{SEGMENT}.log",
        f"orders-0.0123abcd-stray/{SEGMENT}.log",
        f"__cluster_metadata-0/{SEGMENT}.log",
        "bootstrap.checkpoint",
        ".lock",
        "orders-0/notes.txt",
    ],
)
def test_what_a_broker_derives_or_throws_away_is_left_where_it_is(path: str) -> None:
    assert placed(source("broker-log"), path) is None


@pytest.mark.parametrize(
    ("layout", "path", "day", "below"),
    [
        ("dt=%Y-%m-%d", "dt=2024-02-29/orders-0/a", date(2024, 2, 29), "orders-0/a"),
        ("%Y/%m/%d", "2024/05/01/x/orders-0/a", date(2024, 5, 1), "x/orders-0/a"),
        ("y=%Y/m=%m/d=%d", "y=2024/m=12/d=31/a", date(2024, 12, 31), "a"),
        ("%d.%m.%Y", "31.12.2024/a", date(2024, 12, 31), "a"),
        (None, "2024/05/01/a", None, "2024/05/01/a"),
    ],
)
def test_a_date_is_read_from_the_first_directories(
    layout: str | None, path: str, day: date | None, below: str
) -> None:
    assert split_date(path, layout) == (day, below)


@pytest.mark.parametrize(
    "path",
    [
        "dt=2024-02-30/o-0/a",
        "dt=2024-2-3/o-0/a",
        "dt=24-02-03/o-0/a",
        "o-0/a",
        "dtx2024-02-03/o-0/a",
        "dt=٢٠٢٤-٠٢-٠٣/o-0/a",
    ],
)
@pytest.mark.parametrize("kind", ["capture", "broker-log"])
def test_an_object_without_a_real_date_is_set_aside(kind: str, path: str) -> None:
    found = placed(source(kind, dates="dt=%Y-%m-%d"), path)
    assert isinstance(found, StageProblem)
    assert found.reason is SetAside.NO_DATE
