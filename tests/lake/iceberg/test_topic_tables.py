"""A topic's table is called like the topic, and once it has a name it keeps it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from spark_jobs.config.settings import Settings
from spark_jobs.lake.errors import PublishedDiffers
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.commits import publish_into
from spark_jobs.lake.iceberg.holdings import leftover_targets
from spark_jobs.lake.iceberg.target import TableTarget
from spark_jobs.lake.iceberg.topic_tables import TopicTables
from spark_jobs.tables.materialise import RECORDS
from spark_jobs.tables.table_names import folder_name, name_candidates, readable_name
from tests.lake.iceberg.places import CONTRACT, made_table, settings_at, stamp_of, target_of


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_at(tmp_path)


@pytest.fixture
def catalog(settings: Settings) -> Iterator[Catalog]:
    with open_catalog(settings) as opened:
        yield opened


def _publish(catalog: Catalog, settings: Settings, *topics: str, run: str = "r1") -> dict[str, str]:
    """The names under which a run publishes topics, in this order."""
    tables, stamp, names = TopicTables(catalog, "topics"), stamp_of(run), {}
    for topic in topics:
        target = replace(target_of(settings, stamp, [1]), topic=topic)
        placed, table = tables.place(target)
        publish_into(catalog, placed, table, stamp)
        names[topic] = placed.contract.name
    return names


def _digested(topic: str) -> str:
    return list(zip(name_candidates(topic), range(2), strict=False))[1][0]


def test_tables_are_called_like_their_topics(catalog: Catalog, settings: Settings) -> None:
    names = _publish(catalog, settings, "orders", "telemetry-avro", "Shop.EU")
    assert names == {"orders": "orders", "telemetry-avro": "telemetry_avro", "Shop.EU": "shop_eu"}


def test_the_second_topic_of_a_name_gets_a_digest_and_both_keep_theirs(
    catalog: Catalog, settings: Settings
) -> None:
    expected = {"a_b": "a_b", "a-b": _digested("a-b")}
    assert _publish(catalog, settings, "a_b", "a-b") == expected
    assert _publish(catalog, settings, "a-b", "a_b", run="r2") == expected
    assert sorted(catalog.list_tables("topics")) == [("topics", name) for name in sorted(expected.values())]


def test_a_newcomer_does_not_take_the_table_of_a_topic_that_is_not_in_the_run(
    catalog: Catalog, settings: Settings
) -> None:
    _publish(catalog, settings, "a-b")
    assert _publish(catalog, settings, "a_b", run="r2") == {"a_b": _digested("a_b")}
    assert _publish(catalog, settings, "a-b", run="r3") == {"a-b": "a_b"}


def test_a_table_under_any_other_name_is_found_by_its_property(catalog: Catalog, settings: Settings) -> None:
    _publish(catalog, settings, "a-b", "c-d")
    catalog.rename_table("topics.a_b", "topics.renamed")
    catalog.rename_table("topics.c_d", f"topics.{folder_name('c-d')}")
    assert _publish(catalog, settings, "a-b", "c-d", run="r2") == {
        "a-b": "renamed",
        "c-d": folder_name("c-d"),
    }


def test_a_table_of_someone_else_is_left_alone(catalog: Catalog, settings: Settings) -> None:
    foreign = replace(CONTRACT, name="a_b")
    made_table(catalog, TableTarget(namespace="topics", contract=foreign))
    assert _publish(catalog, settings, "a-b") == {"a-b": _digested("a-b")}


def test_a_topic_with_nothing_readable_in_its_name_has_a_digest_from_the_start(
    catalog: Catalog, settings: Settings
) -> None:
    assert readable_name("日本") == ""
    assert _publish(catalog, settings, "日本") == {"日本": next(name_candidates("日本"))}


def test_tables_that_lose_a_date_are_found_under_the_names_that_they_have(
    catalog: Catalog, settings: Settings
) -> None:
    _publish(catalog, settings, "a_b", "a-b", "c")
    found = list(leftover_targets(catalog, settings, stamp_of("r1").day, {"c"}, ()))
    assert sorted((target.topic, target.name[-1]) for target in found) == [
        ("a-b", _digested("a-b")),
        ("a_b", "a_b"),
    ]


def test_a_table_whose_timestamp_is_a_long_is_refused_with_what_to_do(
    catalog: Catalog, settings: Settings
) -> None:
    """A lake that an earlier version has made."""
    old = [
        replace(column, type=CONTRACT.columns[0].type, nullable=False)
        if column.name == "timestamp"
        else column
        for column in RECORDS.columns
    ]
    target = TableTarget(namespace="topics", contract=replace(RECORDS, columns=tuple(old)), topic="records")
    table = made_table(catalog, target)
    with pytest.raises(PublishedDiffers) as refused:
        publish_into(catalog, replace(target, contract=RECORDS), table, stamp_of("r1"))
    assert str(refused.value).startswith(
        "topics.records: its column timestamp is long, now it should be timestamptz; an earlier version"
    )
    assert "set 'lake' to a new, empty location" in str(refused.value)
