"""The settings of `dedup`: what is allowed, what a topic gets, and what the digest covers."""

import pytest

from spark_jobs.config.dedup import IdRule
from spark_jobs.config.load import InvalidConfig
from tests.config.test_load import SMALLEST, parse


@pytest.mark.parametrize(
    ("id_", "expected"),
    [
        ("key", "key"),
        ("header:order", "header:order"),
        ("order_id", ("order_id",)),
        ("[a, b.c]", ("a", "b.c")),
    ],
)
def test_where_an_id_can_be(id_: str, expected: object) -> None:
    settings = parse(f"{SMALLEST}topics: {{orders: {{dedup: {{id: {id_}}}}}}}")
    assert settings.has_dedup
    assert settings.id_rules(["orders", "visits"]) == [(IdRule(scope=("orders",), id=expected), ["orders"])]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dedup", "message"),
    [
        ("{id: []}", "'key', 'header:NAME', or a list of fields"),
        ("{id: 'header:'}", "'key', 'header:NAME', or a list of fields"),
        ("{id: [a, a]}", "fields that are named once each"),
        ("{id: key, window: 3h}", "a number of days, such as 90d"),
        ("{id: key, window: 0}", "a number of days, such as 90d"),
        ("{id: key, null_id: drop}", "'keep'"),
        ("{id: key, scope: [orders, other]}", "the same 'dedup' for all topics of its scope"),
    ],
)
def test_what_is_refused(dedup: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        parse(f"{SMALLEST}topics: {{orders: {{dedup: {dedup}}}}}")


def test_the_key_of_a_compacted_topic_is_no_id() -> None:
    topics = "topics: {{orders: {{cleanup_policy: compact, dedup: {{id: {}}}}}}}"
    with pytest.raises(InvalidConfig, match="later records of a key are updates"):
        parse(SMALLEST + topics.format("key"))
    assert parse(SMALLEST + topics.format("[id]")).has_dedup


def test_the_logs_of_a_scope_share_a_rule() -> None:
    settings = parse(f"{SMALLEST}topics: {{'o*': {{dedup: {{id: key, scope: [o1, o2], window: 90d}}}}}}")
    both = IdRule(scope=("o1", "o2"), id="key", window=90)
    assert settings.id_rules(["o1", "o2", "o2~2", "o3"]) == [
        (both, ["o1", "o2", "o2~2"]),
        (IdRule(scope=("o3",), id="key", window=90), ["o3"]),
    ]
    assert (both.first_day(100), IdRule(scope=("o",), id="key").first_day(100) < -10_000) == (10, True)


def test_the_digest_covers_it() -> None:
    texts = ["{}", "{orders: {}}", "{orders: {dedup: {id: key}}}", "{orders: {dedup: {id: key, window: 9d}}}"]
    assert len({parse(f"{SMALLEST}topics: {text}").digest for text in texts}) == len(texts)
