"""Of records with the same business id the first stays, whatever happens to a lake and in whatever pieces."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from expectations.gate import AuditFailed
from spark_jobs.lake import parquet_file
from spark_jobs.lake.errors import Damaged
from spark_jobs.lake.ledger import list_runs
from spark_jobs.lake.stores import open_lake
from spark_jobs.pipeline.deduplicate import worker
from spark_jobs.pipeline.deduplicate.job import RewriteTask
from spark_jobs.pipeline.report.metrics import exposition, samples_of
from spark_jobs.pipeline.report.run_page import duplicates_of
from spark_jobs.pipeline.report.run_tables import RunTables
from tests.pipeline.deduplicate.lakes import (
    BY_ID,
    Shop,
    counts_of,
    duplicates,
    published,
    rows_of,
    runs,
    states,
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


def test_a_frequent_id_and_a_replayed_day_are_never_in_memory_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = [(0, str(number)) for number in range(40)]
    shop.sell(1, [*day, *[(0, "hot")] * 200])
    shop.sell(2, [*[(0, "hot")] * 200, *day])
    expected, settings = (Shop(shop.directory, name).settings(duplicate_share=1) for name in "ab")
    runs(expected, 1, 2)
    held: dict[str, list[int]] = {"bucket": [], "part": []}
    monkeypatch.setattr(parquet_file, "ROWS_AT_A_TIME", 8)
    monkeypatch.setattr(worker, "GROUP_BYTES", 1)
    for name, key in (("unpacked", "bucket"), ("duplicate_rows", "part")):
        monkeypatch.setattr(worker, name, _counting(getattr(worker, name), held[key]))
    runs(settings, 1, 2)
    assert (published(settings), duplicates(settings)) == (published(expected), duplicates(expected))
    assert states(settings) == states(expected)
    assert len(duplicates(settings)) == 199 + 200 + 40
    assert max(held["bucket"]) <= 40 + 240 // 8  # each id once for each part
    assert max(held["part"]) == 8
    assert len(held["part"]) >= 200 // 8


def _counting(function: Callable[..., pa.Table], rows: list[int]) -> Callable[..., pa.Table]:
    def counted(*args: object) -> pa.Table:
        found = function(*args)
        rows.append(found.num_rows)
        return found

    return counted


def test_a_constant_as_id_removes_nothing_unless_it_is_allowed(shop: Shop) -> None:
    shop.sell(1, [(0, "eur")] * 30)
    with pytest.raises(
        AuditFailed, match=r"(?s)most_records_are_no_duplicates.*raise audit.duplicate_share"
    ) as raised:
        runs(shop.settings(), 1)
    assert "orders" in str(raised.value)
    runs(shop.settings(duplicate_share=1), 1)
    assert len(published(shop.settings())) == 1


@pytest.mark.parametrize(
    ("place", "error", "reason"),
    [
        (0, AuditFailed, "every_record_is_published_or_a_duplicate"),
        (1, Damaged, "2 records are duplicates, 1 were removed"),
    ],
)
def test_a_record_that_is_neither_published_nor_a_duplicate_stops_the_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, place: int, error: type[Exception], reason: str
) -> None:
    shop.sell(1, [(0, "a"), (0, "b"), (0, "a"), (0, "b")])
    divided = worker.divided

    def losing(*args: object) -> list[pa.Table]:
        tables = list(divided(*args))  # type: ignore[arg-type]
        tables[place] = tables[place].slice(1)
        return tables

    monkeypatch.setattr(worker, "divided", losing)
    with pytest.raises(error, match=reason):
        runs(shop.settings(), 1)


def test_a_duplicate_that_stays_in_its_file_stops_the_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sell(1, [(0, "a"), (0, "b"), (0, "a"), (0, "b")])
    divided = worker.divided

    def keeping(task: RewriteTask, part: int, rows: pa.RecordBatch) -> tuple[pa.Table, pa.Table]:
        _, later = divided(task, part, rows)
        return pa.table(rows.slice(0, 3)), later.slice(1)  # the sum is right

    monkeypatch.setattr(worker, "divided", keeping)
    with pytest.raises(Damaged, match="orders: 2 records are duplicates, 1 were removed"):
        runs(shop.settings(), 1)


def test_kinds_are_counted_apart_for_each_producer(shop: Shop) -> None:
    values = {name: f'{{"id": "{name}"}}'.encode() for name in "abc"}
    shop.send(1, [*values.values(), values["a"]], pid=7)
    shop.send(2, [values["b"], values["a"], values["b"]], pid=8)
    shop.send(3, [values["c"]], pid=9)
    settings = shop.settings()
    found = [
        (number, row["producer_id"], row["kind"], row["duplicates"])
        for number, outcome in enumerate(runs(settings, 1, 2, 3), 1)
        for row in duplicates_of(RunTables(open_lake(settings), outcome.run_id))["duplicates"]["producers"]
    ]
    assert found == [(1, 7, "repeated", 1), (2, 8, "failover", 3), (3, 9, "replayed", 1)]


def test_the_metric_has_each_kind_of_each_topic(shop: Shop) -> None:
    shop.sell(1, [(0, "a"), (0, "a"), (1, "a")])
    settings = shop.settings(duplicate_share=1)
    [outcome] = runs(settings, 1)
    lake = open_lake(settings)
    samples = samples_of(list_runs(lake), outcome.run_id, RunTables(lake, outcome.run_id))
    lines = [
        line for line in exposition(samples).splitlines() if line.startswith("onceover_duplicate_records{")
    ]
    assert lines == [
        f'onceover_duplicate_records{{topic="orders",kind="{kind}"}} {count}'
        for kind, count in (("repeated", 1), ("resent", 0), ("failover", 1), ("replayed", 0))
    ]
