"""Of records with the same business id the first stays, whatever happens to a lake and in whatever pieces."""

from pathlib import Path

import pytest

from spark_jobs.lake.stores import open_lake
from tests.pipeline.deduplicate.lakes import (
    BY_ID,
    Shop,
    counts_of,
    duplicates,
    published,
    rows_of,
    runs,
)

pytestmark = pytest.mark.usefixtures("great_expectations")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_an_order_sent_again_is_published_once(shop: Shop) -> None:
    shop.sell(1, [(0, "a"), (0, "b"), (1, "c")])
    shop.sell(2, [(0, "d"), (1, "a"), (1, "e"), (0, "d")])
    settings = shop.settings()
    one, two = runs(settings, 1, 2)
    assert [row[:3] for row in published(settings)] == [(1, 0, 0), (1, 0, 1), (1, 1, 0), (2, 0, 2), (2, 1, 2)]
    assert duplicates(settings) == [
        (2, "orders", 0, 3, "orders", 0, 2, 2, "repeated"),
        (2, "orders", 1, 1, "orders", 0, 0, 1, "failover"),
    ]
    assert counts_of(one)["duplicates"] == 0
    found = counts_of(two)
    assert (found["records"], found["duplicates"], found["repeated"], found["failover"]) == (4, 2, 1, 1)
    assert found["index_ids"] == 5


def test_records_without_an_id_are_never_duplicates(shop: Shop) -> None:
    shop.send(1, [b"{}", b"{}", b"no json", b"no json", b'{"id": 1}', b'{"id": 1.0}', b'{"id": "1"}'])
    settings = shop.settings()
    [outcome] = runs(settings, 1)
    found = counts_of(outcome)
    assert len(published(settings)) == 6
    assert (found["null_ids"], found["unusable_ids"], found["duplicates"]) == (2, 2, 1)


def test_a_record_keeps_its_bytes_in_duplicates(shop: Shop) -> None:
    shop.send(1, [b'{"id": 1}'])
    shop.send(2, [b'{"id": 1, "note": "again"}'])
    settings = shop.settings()
    runs(settings, 1, 2)
    [row] = rows_of(settings, "duplicates", "onceover")
    assert (row["value"], row["id"]) == (b'{"id": 1, "note": "again"}', b"\0\0\0\4n1e0")


def test_the_scope_is_a_topic_or_several(shop: Shop) -> None:
    shop.sell(1, [(0, "a")], topic="orders")
    shop.sell(1, [(0, "a")], topic="orders_eu")
    shop.sell(1, [(0, "a")], topic="orders_us")
    both = "{'orders*': {dedup: {id: [id], scope: [orders, orders_eu]}}}"
    settings = shop.settings(both)
    runs(settings, 1)
    assert duplicates(settings) == [(1, "orders_eu", 0, 0, "orders", 0, 0, 1, "repeated")]
    assert len(published(settings, "orders_us")) == 1


def test_a_window_forgets_what_is_older(shop: Shop) -> None:
    for number in range(1, 8):
        shop.sell(number, [(0, "a"), (0, str(number))])
    settings = shop.settings("{orders: {dedup: {id: [id], window: 2d}}}")
    runs(settings, *range(1, 8))
    days = [row[0] for row in published(settings) if b'"a"' in row[3]]
    assert days == [1, 4, 7]


def test_without_the_setting_nothing_is_left_of_the_step(shop: Shop) -> None:
    shop.sell(1, [(0, "a"), (0, "a")])
    settings = shop.settings("{}")
    [outcome] = runs(settings, 1)
    assert len(published(settings)) == 2
    assert "deduplicate" not in [done.step.value for done in outcome.done]
    assert not list(open_lake(settings).list(f"runs/{outcome.run_id}/deduplicate"))


def test_a_finished_run_is_not_repeated(shop: Shop) -> None:
    shop.sell(1, [(0, "a"), (0, "a")])
    settings = shop.settings(BY_ID)
    assert [outcome.worked for outcome in runs(settings, 1, 1)] == [True, False]
