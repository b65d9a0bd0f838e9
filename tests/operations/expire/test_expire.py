"""Old data is removed, but nothing that the next run, tables, explanations or held batches need."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.config.load import parse_settings
from spark_jobs.config.settings import Settings
from spark_jobs.explain import NothingKnown, Question, explain
from spark_jobs.flow import Step
from spark_jobs.kafka.topic_partition import TopicPartition
from spark_jobs.lake.chain import read_chain
from spark_jobs.lake.errors import ObjectMissing, OutOfTurn
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.expiry import live_files, tables_of
from spark_jobs.lake.layout import SOURCES, source_key
from spark_jobs.lake.run_folder import EXPIRED
from spark_jobs.lake.staged_headers import clear_headers, headers_file, headers_folder
from spark_jobs.lake.stores import open_lake
from spark_jobs.operations.backfill import plan_backfill
from spark_jobs.operations.expire import expire, plan_expiry
from spark_jobs.operations.replay import Selection, decide
from spark_jobs.operations.rollback import roll_back
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest, UnfitRequest
from spark_jobs.sources.cluster.cut import (
    CUT,
    FETCHED,
    PLAN,
    PartitionCut,
    PartitionFetched,
    Plan,
    cut_bytes,
    fetched_bytes,
    plan_bytes,
)
from spark_jobs.sources.cluster.reader import files_of
from spark_jobs.sources.registry import reader_of
from tests.operations.replay.runs import Shop, rows_of, run, run_on
from tests.pipeline.batches import NOON, batch, marker
from tests.pipeline.runs import day

pytestmark = pytest.mark.usefixtures("great_expectations")

RUNS = 5
DAY_MS = 86_400_000
RETENTION = "retention: {runs_days: 2, snapshots_days: 2, staged_days: 2}\n"
FITS, UNFIT = b'{"amount": 1, "note": "x"}', b'{"amount": 2}'
OURS = "ours"
"""A tag that a person has set."""


def _settings(shop: Shop, required: str = "[note]") -> Settings:
    return shop.settings(required, more=RETENTION)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, great_expectations: object) -> Shop:
    """Five runs; the first has an open transaction and an unfit value, the second ran twice."""
    shop = Shop(tmp_path_factory.mktemp("shop"))
    settings = _settings(shop)
    for number in range(1, RUNS + 1):
        time = NOON + (number - 1) * DAY_MS
        shop.arrive(number, batch(number - 1, timestamp=time), topic="plain")
    shop.arrive(1, batch(0, pid=5, txn=True), topic="t")
    shop.arrive(1, batch(0, pid=9, value=FITS), batch(1, pid=9, value=UNFIT))
    run(settings, 1)
    replaced = run(settings, 2).run_id
    roll_back(settings, replaced)
    run(shop.settings(limits="file_bytes: 2MiB", more=RETENTION), 2)
    for number in range(3, RUNS + 1):
        run(settings, number)
    with open_catalog(settings) as catalog:
        table = catalog.load_table(("topics", "plain"))
        first = table.snapshots()[0].snapshot_id
        table.manage_snapshots().create_tag(first, OURS).commit()
    return shop


def _tables(settings: Settings) -> dict[str, list[str]]:
    """Every row of every table."""
    with open_catalog(settings) as catalog:
        return {
            ".".join(table.name()): sorted(map(str, table.scan().to_arrow().to_pylist()))
            for table in tables_of(catalog, settings)
        }


def _files(settings: Settings) -> set[str]:
    return {
        str(path) for path in Path(settings.lake).rglob("*") if path.is_file() and "locks" not in path.parts
    }


def _runs(settings: Settings) -> dict[date, str]:
    return {found: entry.run_id for found, entry in read_chain(open_lake(settings)).current.items()}


def _interrupted(settings: Settings, monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """An expiry that ends when so many files are gone."""
    original, gone = FileStore.delete, [0]

    def delete(store: FileStore, key: str) -> None:
        gone[0] += not key.startswith("locks/")
        if gone[0] > after:
            raise KeyboardInterrupt
        original(store, key)

    with monkeypatch.context() as patched:
        patched.setattr(FileStore, "delete", delete)
        with pytest.raises(KeyboardInterrupt):
            expire(settings)


def test_a_dry_run_lists_what_would_be_deleted_and_changes_nothing(shop: Shop) -> None:
    settings, before = _settings(shop), _files(_settings(shop))
    plan = plan_expiry(settings)
    assert plan.bytes > 0
    current_run = {each.run_id for each in plan.folders if each.is_current}
    runs = _runs(settings)
    assert current_run == {runs[day(number)] for number in (1, 2, 3)}
    assert [each for each in plan.folders if not each.is_current]
    said = CliRunner().invoke(app, ["expire", "--dry-run", "--config", str(shop.directory / "onceover.yaml")])
    assert f"{plan.bytes:,} bytes would be removed" in said.output
    assert _files(settings) == before


def test_without_retention_everything_stays(shop: Shop) -> None:
    plan = plan_expiry(shop.settings())
    assert (plan.tables, plan.folders, plan.objects) == ((), (), ())


def test_headers_of_runs_that_were_given_up_are_removed_like_copies(shop: Shop) -> None:
    settings, lake = _settings(shop), open_lake(_settings(shop))
    old, young = (f"{headers_folder(day(number))}/{headers_file('ab' * 32)}" for number in (3, 4))
    for key in (old, young):
        lake.put(key, b"headers")

    found = [each.key for each in plan_expiry(settings).objects if "/headers/" in each.key]

    for number in (3, 4):
        clear_headers(lake, day(number))
    assert found == [old]


def test_what_anybody_needs_is_still_there_after_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _settings(shop)
    runs, tables = _runs(settings), _tables(settings)
    for after in (0, 3, 10):
        _interrupted(settings, monkeypatch, after=after)
    expire(settings)
    _check_nothing_needed_is_missing(settings, tables)
    assert plan_expiry(settings).bytes == 0

    assert not run(settings, 1).worked  # it is final, though much of it is gone
    question = Question(partition=TopicPartition("plain", 0))
    assert list(explain(open_lake(settings), question, runs[day(RUNS)]))
    assert list(explain(open_lake(settings), question, runs[day(1)])) == []
    with pytest.raises(NothingKnown, match="its verdicts have expired"):
        list(explain(open_lake(settings), Question(partition=question.partition, day=day(1)), runs[day(1)]))

    fixed = _settings(shop, "[]")
    decide(fixed, Selection(run_id=runs[day(1)], topic="orders"), why="an order needs no note")
    shop.arrive(6, marker(pid=5), topic="t")
    shop.arrive(6, batch(RUNS, timestamp=NOON + RUNS * DAY_MS), topic="plain")
    run(fixed, 6)
    assert [row["offset"] for row in rows_of(fixed, "t")] == [0]
    assert [row["amount"] for row in rows_of(fixed, "orders")] == [1, 2]
    assert [row["sequence"] for row in rows_of(fixed, "plain")] == list(range(6))


def _check_nothing_needed_is_missing(settings: Settings, tables: dict[str, list[str]]) -> None:
    assert _tables(settings) == tables
    runs = _runs(settings)
    with open_catalog(settings) as catalog:
        for table in tables_of(catalog, settings):
            assert all(Path(file).exists() for file in live_files(table))
            tags = set(table.refs())
            assert {runs[day(4)], runs[day(5)]} <= tags
            assert not {runs[day(1)], runs[day(2)], runs[day(3)]} & tags
        plain: Any = catalog.load_table(("topics", "plain"))
        assert OURS in plain.refs()
        assert plain.scan(snapshot_id=plain.refs()[OURS].snapshot_id).to_arrow().num_rows == 1
    marked = {path.parent.name for path in Path(settings.lake).glob(f"runs/*/{EXPIRED}")}
    assert marked == {runs[day(number)] for number in (1, 2, 3)}


def test_a_run_of_a_date_in_the_future_makes_nothing_old(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    settings = _settings(shop)
    for number in range(1, 4):
        shop.arrive(number, batch(number - 1), topic="plain")
        run(settings, number)
    stray = run_on(settings, date(9998, 5, 1)).run_id
    before = _files(settings)

    for attempt in (expire, plan_expiry):
        with pytest.raises(OutOfTurn, match=f"a mistake: onceover rollback {stray}$"):
            attempt(settings)

    assert _files(settings) == before
    roll_back(settings, stray)
    assert len(read_chain(open_lake(settings)).current) == 3
    expire(settings)


CLUSTER = "lake: lake\nsources: [{name: live, kind: cluster, bootstrap: 'nowhere:1'}]\n" + RETENTION


def _fetched(settings: Settings, number: int, logs: dict[str, dict[int, bytes]]) -> None:
    """A cut as a fetch leaves it: a segment per topic, of batches by offset."""
    lake, cuts, done = open_lake(settings), [], {}
    for topic, batches in logs.items():
        start, end = min(batches), max(batches) + 1
        segment = f"{start:020d}.log"
        lake.put(source_key("live", day(number), f"{topic}-0", segment), b"".join(batches.values()))
        cuts.append(
            PartitionCut(
                topic=topic,
                partition=0,
                topic_id="",
                start=start,
                end=end,
                last_stable_offset=end,
                leader_epoch=0,
                log_start_offset=0,
                epochs=((0, 0),),
            )
        )
        each = PartitionFetched(
            topic=topic,
            partition=0,
            next_offset=end,
            log_start_offset=0,
            first_offset=start,
            epochs=((0, 0),),
            segments=(segment,),
        )
        lake.put(source_key("live", day(number), f"{topic}-0", FETCHED), fetched_bytes(each))
        done[TopicPartition(topic, 0)] = each
    times = (f"{day(number)}T00:00:00.000+00:00", f"{day(number)}T00:00:01.000+00:00")
    plan = Plan(
        day=day(number), cluster_id="abc", data_times=times, coordinator_times=times, partitions=tuple(cuts)
    )
    for name, data in (*files_of(plan, done), (PLAN, plan_bytes(plan)), (CUT, cut_bytes(plan, done))):
        lake.put(source_key("live", day(number), name), data)


def test_fetched_segments_go_unless_a_young_run_or_an_open_transaction_needs_them(tmp_path: Path) -> None:
    settings = parse_settings(CLUSTER, name="onceover.yaml", base=tmp_path)
    lake, numbers = open_lake(settings), (1, 2, 3, 7)
    for at, number in enumerate(numbers):
        logs = {"plain": {at: batch(at, at=at, leader_epoch=0)}}
        if number == 1:
            logs["t"] = {0: batch(0, pid=5, txn=True, at=0, leader_epoch=0)}
        _fetched(settings, number, logs)
        run(settings, number)
    tables = _tables(settings)
    expire(settings)

    left = [each.key for each in lake.list(SOURCES)]
    segments = {"/".join(key.split("/")[2:4]) for key in left if key.endswith(".log")}
    assert segments == {f"{day(1)}/t-0", f"{day(3)}/plain-0", f"{day(7)}/plain-0"}
    assert {source_key("live", day(number), CUT) for number in numbers} <= set(left)
    assert _tables(settings) == tables
    changed = parse_settings(f"{CLUSTER}limits: {{file_bytes: 2MiB}}\n", name="o.yaml", base=tmp_path)
    with pytest.raises(UnfitRequest, match="1 objects have expired, such as live/2024-05-02/plain-0"):
        plan_backfill(changed, BackfillRequest(first=day(2), last=day(2)))
    with pytest.raises(ObjectMissing, match="this segment has expired or was removed"):
        reader_of(settings.sources[0]).bring_in(day(2), lake, None)

    _fetched(settings, 8, {"plain": {4: batch(4, at=4, leader_epoch=0)}, "t": {1: marker(pid=5, at=1)}})
    run(settings, 8)
    assert [row["offset"] for row in rows_of(settings, "t")] == [0]
    assert [row["offset"] for row in rows_of(settings, "plain")] == list(range(5))

    for entry in reversed(read_chain(lake).current.values()):
        roll_back(settings, entry.run_id)
    with pytest.raises(ObjectMissing, match=f"{day(1)}/plain-0.*has expired or was removed"):
        run(settings, 8, Step.STAGE)  # plain would begin with offset 2, and nothing would tell
