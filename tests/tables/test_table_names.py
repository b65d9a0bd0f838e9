"""Names are safe in every catalog; folders of two topics never share one, and tables only need not."""

import re
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.tables.table_names import folder_name, name_candidates, readable_name

HOSTILE = [
    "Orders", "ORDERS", "orders-eu", "orders.eu", "orders_eu", "orders-eu.v2", "1st", "_hidden", "__consumer",
    "a'; drop table x;--", "../../etc/passwd", "naïve", "日本", "x" * 249, "x" * 300, '"quoted"', "a b", "",
    "orders.eu__0123456789abcdef", "orders_eu__0123456789abcdef", "select", "%2e", "\udcff",
]  # fmt: skip
SAFE = re.compile(r"[a-z][a-z0-9_]*")


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("orders_2", "orders_2"),
        ("a__b_", "a__b_"),
        ("telemetry-avro", "telemetry_avro"),
        ("Orders-EU.v2", "orders_eu_v2"),
        ("__confluent.support.metrics", "confluent_support_metrics"),
        ("1st", "t_1st"),
        ("日本", ""),
    ],
)
def test_a_table_is_named_like_its_topic(topic: str, table: str) -> None:
    assert readable_name(topic) == table


def test_a_name_that_is_taken_gets_a_digest_of_the_topic() -> None:
    readable, digested, longer = islice(name_candidates("telemetry-avro"), 3)
    assert readable == "telemetry_avro"
    assert re.fullmatch(r"telemetry_avro__[0-9a-f]{8}", digested)
    assert re.fullmatch(digested + r"[0-9a-f]{8}", longer)


@pytest.mark.parametrize("topic", HOSTILE)
def test_every_name_is_made_of_safe_characters_and_short(topic: str) -> None:
    for name in (folder_name(topic), *islice(name_candidates(topic), 6)):
        assert SAFE.fullmatch(name)
        assert len(name) <= 180


@given(st.text())
def test_there_is_always_another_name(topic: str) -> None:
    names = list(islice(name_candidates(topic), 8))
    assert len(set(names)) == len(names)
    assert all(SAFE.fullmatch(name) for name in names)


def test_no_two_topics_share_a_folder() -> None:
    assert len({folder_name(topic) for topic in HOSTILE}) == len(HOSTILE)


@given(st.text(), st.text())
def test_topics_that_only_a_catalog_would_confuse_have_different_folders(one: str, other: str) -> None:
    assert (folder_name(one) == folder_name(other)) == (one == other)


@given(st.text(min_size=1))
def test_the_folder_of_a_topic_is_no_topic_s_own_name(topic: str) -> None:
    made = folder_name(topic)
    assert made == topic or folder_name(made) != made
