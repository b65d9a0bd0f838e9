"""Table names are safe in every catalog, and two topics never share one."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.tables.table_names import table_name

HOSTILE = [
    "Orders", "ORDERS", "orders-eu", "orders.eu", "orders_eu", "orders-eu.v2", "1st", "_hidden", "__consumer",
    "a'; drop table x;--", "../../etc/passwd", "naïve", "日本", "x" * 249, "x" * 300, '"quoted"', "a b", "",
    "orders.eu__0123456789abcdef", "orders_eu__0123456789abcdef", "select", "%2e", "\udcff",
]  # fmt: skip


def test_a_plain_topic_keeps_its_name() -> None:
    assert table_name("orders_2") == "orders_2"


def test_other_topics_stay_recognisable() -> None:
    assert re.fullmatch(r"orders_eu_v2__[0-9a-f]{16}", table_name("Orders-EU.v2"))


@pytest.mark.parametrize("topic", HOSTILE)
def test_every_name_is_made_of_safe_characters_and_short(topic: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]{0,127}", table_name(topic))


def test_no_two_topics_share_a_table() -> None:
    assert len({table_name(topic) for topic in HOSTILE}) == len(HOSTILE)


@given(st.text(), st.text())
def test_names_that_only_a_catalog_would_confuse_are_told_apart(one: str, other: str) -> None:
    assert (table_name(one) == table_name(other)) == (one == other)


@given(st.text(min_size=1))
def test_what_a_topic_was_made_into_is_no_topic_s_own_name(topic: str) -> None:
    made = table_name(topic)
    assert made == topic or table_name(made) != made
