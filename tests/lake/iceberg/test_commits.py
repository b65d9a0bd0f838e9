"""Publishing is adding once: again, after a crash, after a lost answer, or in place of an earlier run."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.expressions import visitors
from pyiceberg.expressions.visitors import visit
from pyiceberg.table import Table

from spark_jobs.config.settings import Settings
from spark_jobs.lake.errors import CatalogUnfit, Damaged, PublishedDiffers, PublishFailed
from spark_jobs.lake.iceberg.catalog import catalog_properties, open_catalog
from spark_jobs.lake.iceberg.commits import publish_table
from spark_jobs.tables.contract import Column
from tests.lake.iceberg.places import CONTRACT, made_table, numbers_in, settings_at, stamp_of, target_of


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_at(tmp_path)


@pytest.fixture
def catalog(settings: Settings) -> Iterator[Catalog]:
    with open_catalog(settings) as opened:
        yield opened


def _table(catalog: Catalog) -> Table:
    return catalog.load_table(("topics", "things"))


def test_a_run_s_files_become_the_table_in_one_snapshot(catalog: Catalog, settings: Settings) -> None:
    stamp = stamp_of("r1")
    published = publish_table(catalog, target_of(settings, stamp, [1, 2], [3]), stamp)
    assert numbers_in(catalog) == [1, 2, 3]
    assert len(_table(catalog).snapshots()) == 1
    assert (published.rows, len(published.change.added)) == (3, 2)


def test_the_snapshot_says_which_run_made_it_from_what(catalog: Catalog, settings: Settings) -> None:
    stamp = stamp_of("r1")
    publish_table(catalog, target_of(settings, stamp, [1]), stamp)
    snapshot = _table(catalog).current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    said = {key: value for key, value in snapshot.summary.additional_properties.items() if "onceover" in key}
    assert said == {
        "onceover.run-id": "r1",
        "onceover.run-date": "2024-05-01",
        "onceover.manifest": "manifest of r1",
        "onceover.config": "config of r1",
        "onceover.state-in": "state_in of r1",
        "onceover.state-out": "state_out of r1",
        "onceover.topic": "things",
        "onceover.next-offsets": '{"0":7}',
    }


def test_columns_inherit_their_meaning_and_the_table_its_own(catalog: Catalog, settings: Settings) -> None:
    stamp = stamp_of("r1")
    publish_table(catalog, target_of(settings, stamp), stamp)
    table = _table(catalog)
    assert table.schema().find_field("number").doc == "what was counted"
    assert table.schema().find_field("number").required
    assert table.properties["comment"] == "Things that were counted."


def test_a_run_takes_the_place_of_another_however_threads_take_turns(
    catalog: Catalog, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 25):
        stamp = stamp_of(f"r{day}", day)
        publish_table(catalog, target_of(settings, stamp, [day]), stamp)

    def visit_later(condition: Any, visitor: Any) -> Any:
        if isinstance(visitor, visitors._ManifestEvalVisitor):
            time.sleep(0.005)
        return visit(condition, visitor)

    monkeypatch.setattr(visitors, "visit", visit_later)
    stamp = stamp_of("again", 12)
    publish_table(catalog, target_of(settings, stamp, [120]), stamp)
    monkeypatch.undo()
    assert sorted(numbers_in(catalog)) == [*(day for day in range(1, 25) if day != 12), 120]


def test_publishing_again_changes_nothing(catalog: Catalog, settings: Settings) -> None:
    stamp = stamp_of("r1")
    target = target_of(settings, stamp, [1, 2])
    first = publish_table(catalog, target, stamp)
    before = _table(catalog).metadata
    again = publish_table(catalog, target, stamp)
    assert again.snapshot_id == first.snapshot_id
    assert not again.change
    assert _table(catalog).metadata == before


def test_runs_add_up_and_each_tag_shows_its_own_cut(catalog: Catalog, settings: Settings) -> None:
    for day in (1, 2, 3):
        stamp = stamp_of(f"r{day}", day)
        publish_table(catalog, target_of(settings, stamp, [day]), stamp)
    assert numbers_in(catalog) == [1, 2, 3]
    assert [numbers_in(catalog, f"r{day}") for day in (1, 2, 3)] == [[1], [1, 2], [1, 2, 3]]


def test_a_run_without_news_is_tagged_too(catalog: Catalog, settings: Settings) -> None:
    for day, numbers in ((1, [[1]]), (2, [])):
        stamp = stamp_of(f"r{day}", day)
        publish_table(catalog, target_of(settings, stamp, *numbers), stamp)
    assert numbers_in(catalog, "r2") == [1]


def test_another_run_of_the_date_replaces_the_first_in_one_snapshot(
    catalog: Catalog, settings: Settings
) -> None:
    for run_id, day, numbers in (("r1", 1, [1]), ("r2", 2, [2]), ("r1b", 1, [10, 11])):
        stamp = stamp_of(run_id, day)
        publish_table(catalog, target_of(settings, stamp, numbers), stamp)
    assert numbers_in(catalog) == [2, 10, 11]
    assert numbers_in(catalog, "r2") == [1, 2]
    assert len(_table(catalog).snapshots()) == 3


def test_a_run_that_was_replaced_can_come_back(catalog: Catalog, settings: Settings) -> None:
    for run_id, numbers in (("r1", [1]), ("r1b", [10]), ("r1", [1])):
        stamp = stamp_of(run_id)
        publish_table(catalog, target_of(settings, stamp, numbers), stamp)
    assert numbers_in(catalog) == numbers_in(catalog, "r1") == [1]


def test_a_new_column_of_the_contract_is_added_and_old_rows_have_none(
    catalog: Catalog, settings: Settings
) -> None:
    wider = replace(CONTRACT, columns=(*CONTRACT.columns, Column("note", pa.string(), "a remark", True)))
    for day, contract in ((1, CONTRACT), (2, wider), (3, CONTRACT)):
        stamp = stamp_of(f"r{day}", day)
        publish_table(catalog, target_of(settings, stamp, [day], contract=contract), stamp)
    rows = _table(catalog).scan().to_arrow().sort_by("number").to_pylist()
    assert [row["note"] for row in rows] == [None, "2", None]
    assert numbers_in(catalog) == [1, 2, 3]


def test_a_column_that_may_be_null_from_now_on_becomes_optional(catalog: Catalog, settings: Settings) -> None:
    noted = (Column("note", pa.string(), "a remark", nullable) for nullable in (False, True))
    for day, note in enumerate(noted, start=1):
        stamp = stamp_of(f"r{day}", day)
        contract = replace(CONTRACT, columns=(*CONTRACT.columns, note))
        publish_table(catalog, target_of(settings, stamp, [day], contract=contract), stamp)
        assert _table(catalog).schema().find_field("note").optional is note.nullable
    assert numbers_in(catalog) == [1, 2]


class LostAnswer(Exception):
    """What a client sees when the connection breaks."""


@pytest.mark.parametrize("landed", [False, True])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_lost_answer_is_settled_by_what_the_table_says(
    catalog: Catalog, settings: Settings, monkeypatch: pytest.MonkeyPatch, is_new: bool, landed: bool
) -> None:
    stamp = stamp_of("r1")
    target = target_of(settings, stamp, [1, 2])
    original = catalog.commit_table
    if not is_new:
        made_table(catalog, target)

    def broken(*arguments: Any, **named: Any) -> Any:
        if landed:
            original(*arguments, **named)
        raise LostAnswer

    with monkeypatch.context() as patched:
        patched.setattr(catalog, "commit_table", broken)
        if landed:
            publish_table(catalog, target, stamp)
        else:
            with pytest.raises(PublishFailed):
                publish_table(catalog, target, stamp)
    publish_table(catalog, target, stamp)
    assert numbers_in(catalog) == [1, 2]
    assert len(_table(catalog).snapshots()) == 1


@pytest.mark.parametrize("call", ["create_table_transaction", "_write_metadata"])
def test_a_table_and_its_first_snapshot_are_created_in_one_commit(
    catalog: Catalog, settings: Settings, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    stamp = stamp_of("r1")
    target = target_of(settings, stamp, [1])
    with monkeypatch.context() as patched:
        patched.setattr(catalog, call, _full)
        with pytest.raises(PublishFailed, match="was not committed: full"):
            publish_table(catalog, target, stamp)
    assert catalog.list_tables("topics") == []
    published = publish_table(catalog, target, stamp)
    assert [entry.snapshot_id for entry in _table(catalog).history()] == [published.snapshot_id]
    assert _table(catalog).metadata.metadata_log == []


def _full(*_: Any, **__: Any) -> None:
    raise OSError("full")


def test_what_the_catalog_answered_is_what_it_shows(catalog: Catalog, settings: Settings) -> None:
    for day in (1, 2):
        stamp = stamp_of(f"r{day}", day)
        published = publish_table(catalog, target_of(settings, stamp, [day]), stamp)
        assert _table(catalog).refs()[f"r{day}"].snapshot_id == published.snapshot_id


def test_a_file_without_statistics_on_its_run_date_is_noticed(catalog: Catalog, settings: Settings) -> None:
    """Iceberg would take its date for null, and readers of the date would miss its rows."""
    stamp = stamp_of("r1")
    target = target_of(settings, stamp, [1, 2])
    path = Path(target.files[0].location)
    table = pa.parquet.read_table(path)
    pa.parquet.write_table(table, path, write_statistics=False)
    with pytest.raises(PublishedDiffers, match="statistics do not prove that its rows are of 2024-05-01"):
        publish_table(catalog, target, stamp)


def test_a_sqlite_catalog_wants_a_lake_that_is_a_path(settings: Settings) -> None:
    with pytest.raises(CatalogUnfit, match="make 'catalog' sql, rest or glue"):
        catalog_properties(settings.model_copy(update={"lake": "s3://bucket/lake"}))


def test_other_catalogs_are_a_matter_of_configuration(tmp_path: Path) -> None:
    settings = settings_at(
        tmp_path, "catalog: {kind: rest, uri: 'https://catalog', properties: {oauth2-server-uri: x}}\n"
    )
    found = catalog_properties(settings)
    assert {key: found[key] for key in ("type", "uri", "oauth2-server-uri")} == {
        "type": "rest",
        "uri": "https://catalog",
        "oauth2-server-uri": "x",
    }


@pytest.mark.parametrize("kept", ["nothing", "half", "other bytes", "no file"])
@pytest.mark.parametrize("kind", ["snap-*.avro", "*-m0.avro"])
def test_damaged_manifests_are_named_with_what_to_do(
    kind: str, kept: str, catalog: Catalog, settings: Settings
) -> None:
    stamp = stamp_of("r1")
    target = target_of(settings, stamp, [1, 2])
    publish_table(catalog, target, stamp)
    for path in Path(settings.lake).rglob(kind):
        data = path.read_bytes()
        path.write_bytes({"half": data[: len(data) // 2], "other bytes": bytes(len(data))}.get(kept, b""))
        if kept == "no file":
            path.unlink()
    with pytest.raises(Damaged, match=r"topics\.things: its manifests .* restore it from a copy"):
        publish_table(catalog, target, stamp)
