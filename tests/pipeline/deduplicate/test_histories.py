"""Whatever happens to a lake, its index, its tables and its chain are those of an undisturbed history."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.flow import Step
from spark_jobs.lake import id_index
from spark_jobs.lake.errors import Damaged, ObjectMissing
from spark_jobs.lake.id_index import IdIndex, indexes_before, read_index_rows
from spark_jobs.lake.layout import ID_BUILDS, step_key
from spark_jobs.lake.run_folder import MESSAGES, RunFolder, StepDone
from spark_jobs.lake.stores import open_lake
from spark_jobs.operations.check import check
from spark_jobs.operations.expire import expire
from spark_jobs.operations.replay import Selection, decide
from spark_jobs.operations.rollback import roll_back
from spark_jobs.pipeline.context import RunContext
from spark_jobs.pipeline.deduplicate import step, worker
from spark_jobs.pipeline.deduplicate.earlier_runs import Builds, RunFiles
from spark_jobs.progress import RunProgress
from spark_jobs.run import RunOutcome
from tests.pipeline.deduplicate.lakes import (
    BY_ID,
    WITHOUT,
    Order,
    Shop,
    again,
    counts_of,
    duplicates,
    indexes,
    published,
    runs,
    states,
    table_files,
)

pytestmark = pytest.mark.usefixtures("great_expectations")

PROGRESS = r"orders: no index yet; reading ids of 2 earlier runs (\d) done ([\d.]+) of ([\d.]+) MB"
DAYS: dict[int, list[Order]] = {
    1: [(0, "a"), (0, "b"), (1, "c"), (1, "a")],
    2: [(0, "d"), (1, "b"), (1, "")],
    3: [(0, "c"), (0, "e"), (0, "e")],
}


def _shop(directory: Path, days: dict[int, list[Order]] = DAYS, lake: str = "lake") -> Shop:
    shop = Shop(directory, lake)
    for number, orders in days.items():
        shop.sell(number, orders)
    return shop


def _undisturbed(shop: Shop, days: Iterable[int] = DAYS) -> tuple[object, object]:
    settings = Shop(shop.directory, "undisturbed").settings()
    runs(settings, *days)
    return states(settings), table_files(settings)


def _outcome(outcome: RunOutcome) -> dict[str, int]:
    return {name: count for name, count in counts_of(outcome).items() if name != "index_bytes"}


def test_a_rollback_and_the_same_run_again(tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    settings = shop.settings()
    *_, last = runs(settings, 1, 2, 3)
    roll_back(settings, last.run_id)
    assert [row[0] for row in duplicates(settings)] == [1, 2]
    runs(settings, 3)
    assert (states(settings), table_files(settings)) == _undisturbed(shop)


def test_a_backfill_of_a_middle_day(tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    settings = shop.settings()
    runs(settings, 1, 2, 3)
    shop.sell(2, [(1, "e"), (1, "f")], name="b")
    assert [run_id[:10] for run_id in again(settings, 2, 2)] == ["2024-05-02", "2024-05-03"]
    assert [row for row in duplicates(settings) if row[0] == 3][-1][-2] == 2  # the first "e" is of day 2 now
    other = Shop(shop.directory, "undisturbed").settings()
    runs(other, *DAYS)  # the backfill gave the captured partitions a new leader epoch, so other states
    assert (indexes(settings), published(settings)) == (indexes(other), published(other))
    assert duplicates(settings) == duplicates(other)


@pytest.mark.parametrize("function", ["put_facts", "with_new_ids"])
def test_a_run_that_ends_inside_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    shop = _shop(tmp_path)
    settings = shop.settings()
    runs(settings, 1, 2)
    with monkeypatch.context() as broken:
        broken.setattr(step, function, lambda *_, **__: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            runs(settings, 3)
    runs(settings, 3)
    assert (states(settings), table_files(settings)) == _undisturbed(shop)


def test_an_index_that_is_built_later_is_the_same(tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    settings = shop.settings(WITHOUT)
    runs(settings, 1, 2)
    [outcome] = runs(shop.settings(BY_ID), 3)
    other = Shop(tmp_path, "undisturbed").settings()
    *_, expected = runs(other, *DAYS)
    lakes = open_lake(settings), open_lake(other)
    assert read_index_rows(lakes[0], outcome.run_id) == read_index_rows(lakes[1], expected.run_id)
    assert len(published(settings)) == 4 + 3 + 1  # what was published stays, also the repeated ids
    assert not list(lakes[0].list(ID_BUILDS))
    again(shop.settings(BY_ID), 1, 3)
    assert (states(settings), table_files(settings)) == (states(other), table_files(other))


def test_an_interrupted_build_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = _shop(tmp_path)
    settings = shop.settings(WITHOUT)
    runs(settings, 1, 2)
    monkeypatch.setattr(step, "CHUNK_ROWS", 1)
    read: list[tuple[int, ...]] = []
    extend = step.extend

    def until_second(*args: object, **options: object) -> object:
        read.append(tuple(run.day for run in args[3]))  # type: ignore[attr-defined]
        if len(read) == 2:
            raise ZeroDivisionError
        return extend(*args, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as broken:
        broken.setattr(step, "extend", until_second)
        with pytest.raises(ZeroDivisionError):
            runs(shop.settings(), 3)
    assert len(list(open_lake(settings).list(ID_BUILDS))) == 1
    assert not [each.key for each in open_lake(settings).list() if "/deduplicate/parts/" in each.key]
    with monkeypatch.context() as watched:
        watched.setattr(step, "extend", until_second)
        [outcome] = runs(shop.settings(), 3)
    assert [days[0] - read[0][0] for days in read] == [0, 1, 1, 2]  # the second is read again, then the run
    messages = open_lake(settings).read(step_key(outcome.run_id, Step.DEDUPLICATE, MESSAGES)).decode()
    assert "from 2 earlier runs, 4 ids; 2 of their records repeat an id" in messages


def test_a_build_is_kept_until_its_step_is_marked_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = _shop(tmp_path)
    lake = open_lake(shop.settings())
    runs(shop.settings(WITHOUT), 1, 2)
    with monkeypatch.context() as broken:
        broken.setattr(RunFolder, "finish", _fail_at_deduplicate(RunFolder.finish))
        with pytest.raises(ZeroDivisionError):
            runs(shop.settings(), 3)
    assert list(lake.list(ID_BUILDS))
    monkeypatch.setattr(Builds, "put", lambda *_: 1 // 0)
    runs(shop.settings(), 3)  # reads no earlier run again
    assert not list(lake.list(ID_BUILDS))


def _fail_at_deduplicate(finish: Callable[..., StepDone]) -> Callable[..., StepDone]:
    def failing(folder: RunFolder, step: Step, **options: Any) -> StepDone:
        if step is Step.DEDUPLICATE:
            raise ZeroDivisionError
        return finish(folder, step, **options)

    return failing


@pytest.mark.parametrize("topics", [BY_ID, "{orders: {dedup: {id: [id], window: 9d}}}"])
def test_an_index_without_first_records_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topics: str
) -> None:
    settings = _shop(tmp_path).settings(topics)
    runs(settings, 1)

    def without_firsts(*args: Any) -> dict[str, IdIndex]:
        return {rule: replace(index, firsts=()) for rule, index in indexes_before(*args).items()}

    monkeypatch.setattr(step, "indexes_before", without_firsts)
    with pytest.raises(Damaged, match="no first record for 1 of the hashes of 2024-05-01"):
        runs(settings, 2)


def test_duplicates_that_a_task_did_not_store_are_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = _shop(tmp_path).settings()
    put = worker.put_scratch
    monkeypatch.setattr(worker, "put_scratch", lambda *args: None if "found" in args[2] else put(*args))
    with pytest.raises((FileNotFoundError, ObjectMissing)):
        runs(settings, 1)


def test_another_id_has_another_index(tmp_path: Path) -> None:
    shop = _shop(tmp_path)
    runs(shop.settings(), 1, 2)
    [outcome] = runs(shop.settings("{orders: {dedup: {id: key}}}"), 3)
    assert (counts_of(outcome)["null_ids"], counts_of(outcome)["index_ids"]) == (3, 0)


def test_another_id_is_compared_with_all_history(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.send(1, [b'{"id": 1, "other": "a"}', b'{"id": 2, "other": "b"}'])
    shop.send(2, [b'{"id": 1, "other": "c"}', b'{"id": 3, "other": "a"}', b'{"id": 4, "other": "d"}'])
    shop.send(3, [b'{"id": 5, "other": "d"}', b'{"id": 2, "other": "e"}', b'{"id": 6, "other": "c"}'])
    by_other = shop.settings("{orders: {dedup: {id: [other]}}}")
    runs(shop.settings(), 1, 2)
    [outcome] = runs(by_other, 3)
    later = [row[:6] for row in duplicates(by_other)]
    assert later == [(2, "orders", 0, 2, "orders", 0), (3, "orders", 0, 5, "orders", 0)]
    found = counts_of(outcome)  # "c" of day 2 was not published; "a" was published twice and stays so
    assert (found["duplicates"], found["index_ids"]) == (1, 5)


def test_a_build_reports_what_it_has_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = _shop(tmp_path)
    runs(shop.settings(WITHOUT), 1, 2)
    monkeypatch.setattr(step, "CHUNK_ROWS", 1)
    monkeypatch.setattr(step, "MEGABYTE", 1)
    said: list[str] = []
    monkeypatch.setattr(RunProgress, "on_progress", lambda _, what: said.append(what))
    runs(shop.settings(), 3)
    found = [re.fullmatch(PROGRESS, each.replace(",", "")) for each in said if "no index yet" in each]
    done = [tuple(map(float, match.groups())) for match in found if match is not None]
    assert [count for count, _, _ in done] == [0, 1]
    assert all(read < total for _, read, total in done)
    assert done[0][1] == 0 < done[1][1]
    assert any(each.startswith("orders: comparing 3 records with 4 ids, ") for each in said)


def test_neither_buckets_nor_sizes_of_files_change_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_index, "FAN_OUT", 2)
    days = {day: [(n % 3, str(n * day % 40)) for n in range(30)] for day in range(1, 6)}
    shop = _shop(tmp_path, days)
    settings = shop.settings()
    found = [_outcome(outcome) for outcome in runs(settings, *days, until=Step.DEDUPLICATE)]
    monkeypatch.setattr(step, "bucket_count", lambda *_: 64)
    other = Shop(tmp_path, "other").settings()
    assert [_outcome(each) for each in runs(other, *days, until=Step.DEDUPLICATE)] == found
    assert states(settings) == states(other)
    monkeypatch.setattr(id_index, "BYTES_PER_ID", 1 << 27)  # two ids in a file
    small = Shop(tmp_path, "small").settings()
    *others, last = runs(small, *days, until=Step.DEDUPLICATE)
    assert [_outcome(each) for each in (*others, last)] == found
    rows = read_index_rows(open_lake(small), last.run_id)
    assert max(row["number"] for row in rows) > 8
    assert {row["level"] for row in rows if row["kind"] == "hashes"} == {0, 1}
    assert sum(counts["ids"] for counts in rows if counts["kind"] == "hashes") == found[-1]["index_ids"]


def test_a_large_index_is_not_read_in_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _shop(tmp_path).settings()
    in_driver: list[bool] = []
    shuffle = RunContext.shuffle

    def watched(*args: Any, **options: Any) -> Any:
        if options["name"] == "compare ids of orders":
            in_driver.append(options["in_driver"])
        return shuffle(*args, **options)

    monkeypatch.setattr(RunContext, "shuffle", watched)
    monkeypatch.setattr(RunFiles, "bytes", 0)
    monkeypatch.setattr(step, "FEW_BYTES", 0)
    runs(settings, 1, 2, until=Step.DEDUPLICATE)
    assert in_driver == [True, False]  # the first run has no index yet


def test_hashes_that_collide_are_told_apart_by_the_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = worker.hash_column
    monkeypatch.setattr(worker, "hash_column", lambda ids, key: hashed(ids, key) % 2)
    shop = _shop(tmp_path)
    settings = shop.settings()
    runs(settings, *DAYS)
    values = [value for *_, value in published(settings)]
    assert sorted(values) == sorted({*values})
    assert len(values) == 5 + 1  # five ids, and an order without one


def test_cutting_days_differently_publishes_the_same_ids(tmp_path: Path) -> None:
    together = {1: [order for orders in DAYS.values() for order in orders]}
    one, other = _shop(tmp_path / "one").settings(), _shop(tmp_path / "other", together).settings()
    runs(one, *DAYS)
    runs(other, 1)
    assert {value for *_, value in published(one)} == {value for *_, value in published(other)}
    assert len(duplicates(one)) == len(duplicates(other)) == 4


def test_a_check_finds_a_missing_file_of_the_index(tmp_path: Path) -> None:
    settings = _shop(tmp_path).settings()
    [*_, last] = runs(settings, *DAYS)
    assert not [each for each in check(settings) if "state" in each.problem]
    row = next(row for row in read_index_rows(open_lake(settings), last.run_id) if row["digest"])
    open_lake(settings).delete(f"state/{row['digest'][:2]}/{row['digest']}")
    assert [each for each in check(settings) if "is missing; it is part of the state" in each.problem]


def test_steps_that_follow_start_from_the_step(tmp_path: Path) -> None:
    settings = _shop(tmp_path).settings()
    for until in (Step.MATERIALISE, Step.DEDUPLICATE, Step.PUBLISH):
        [outcome] = runs(settings, 1, until=until)
        assert outcome.done[-1].step is until
    assert states(settings) == _undisturbed(Shop(tmp_path), [1])[0]


def test_an_expired_history_is_compared_like_any_other(tmp_path: Path) -> None:
    shop = _shop(tmp_path, {**DAYS, 4: [(0, "f")], 5: [(0, "g")], 6: [(1, "a"), (1, "h")]})
    settings = shop.settings()
    runs(settings, 1, 2, 3, 4, 5)
    before = {found.key for found in open_lake(settings).list("")}
    expire(settings)
    assert before - {found.key for found in open_lake(settings).list("")}
    runs(settings, 6)
    other = Shop(tmp_path, "undisturbed").settings()
    runs(other, 1, 2, 3, 4, 5, 6)
    assert (states(settings), duplicates(settings)) == (states(other), duplicates(other))
    assert table_files(settings) == table_files(other)
    assert duplicates(settings)[-1] == (6, "orders", 1, 4, "orders", 0, 0, 1, "replayed")


def test_a_record_replayed_from_quarantine_is_the_first_with_its_id(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    topics = "{{orders: {{value: json, fields: {{note: string}}, required: {}, dedup: {{id: [id]}}}}}}"
    shop.send(1, [b'{"id": "a", "note": "x"}', b'{"id": "b"}'])
    shop.send(2, [b'{"id": "b", "note": "x"}', b'{"id": "c", "note": "x"}'])
    [first] = runs(shop.settings(topics.format("[note]")), 1)
    settings = shop.settings(topics.format("[]"))
    decide(settings, Selection(run_id=first.run_id), why="an order needs no note")
    [second] = runs(settings, 2)
    assert [row[:3] for row in published(settings)] == [(1, 0, 0), (2, 0, 1), (2, 0, 3)]
    assert duplicates(settings) == [(2, "orders", 0, 2, "orders", 0, 1, 2, "failover")]
    expected = states(settings), indexes(settings), table_files(settings)
    roll_back(settings, second.run_id)
    runs(settings, 2)
    assert (states(settings), indexes(settings), table_files(settings)) == expected
