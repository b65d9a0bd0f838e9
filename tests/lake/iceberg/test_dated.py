"""The files of a date are those that a scan finds, however often the date was published."""

from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform

from spark_jobs.lake.iceberg.catalog import open_catalog
from spark_jobs.lake.iceberg.commits import dated_files, is_divided_by_date, publish_table, scanned_files
from tests.lake.iceberg.places import made_table, settings_at, stamp_of, target_of

RUN_DATES: tuple[tuple[str, int, list[list[int]]], ...] = (
    ("r1", 1, [[1], [2]]),
    ("r2", 2, [[3]]),
    ("r3", 3, []),
    ("r2b", 2, [[4], [5]]),
    ("r1b", 1, []),
)


def _published(place: Path, catalog: Catalog) -> Table:
    """Runs that follow each other, of which two were published again with other files."""
    settings = settings_at(place)
    for run_id, day, numbers in RUN_DATES:
        stamp = stamp_of(run_id, day)
        publish_table(catalog, target_of(settings, stamp, *numbers), stamp)
    return catalog.load_table(("topics", "things"))


def _is_as_scanned(table: Table) -> bool:
    cuts = [(stamp_of("", day).day, ref.snapshot_id) for day in range(1, 5) for ref in table.refs().values()]
    found = [sorted(file.file_path for file in dated_files(table, *cut)) for cut in cuts]
    return found == [sorted(file.file_path for file in scanned_files(table, *cut)) for cut in cuts]


@pytest.mark.parametrize("merged", ["false", "true"])
def test_they_are_those_that_a_scan_finds_at_any_cut(tmp_path: Path, merged: str) -> None:
    merging = {"commit.manifest-merge.enabled": merged, "commit.manifest.min-count-to-merge": "2"}
    settings = settings_at(tmp_path)
    with open_catalog(settings) as catalog:
        table = made_table(catalog, target_of(settings, stamp_of("r0")))
        with table.transaction() as transaction:
            transaction.set_properties(merging)
        table = _published(tmp_path, catalog)
        assert is_divided_by_date(table)
        assert _is_as_scanned(table)
        assert [len(list(dated_files(table, stamp_of("", day).day))) for day in (1, 2, 3)] == [0, 2, 0]


def test_a_table_without_snapshots_has_none(tmp_path: Path) -> None:
    settings = settings_at(tmp_path)
    with open_catalog(settings) as catalog:
        table = made_table(catalog, target_of(settings, stamp_of("r0")))
        assert list(dated_files(table, stamp_of("r0").day)) == []


def test_a_table_that_someone_divided_otherwise_is_scanned(tmp_path: Path) -> None:
    with open_catalog(settings_at(tmp_path)) as catalog:
        table = _published(tmp_path, catalog)
        with table.update_spec() as update:
            update.add_field("number", BucketTransform(4), "bucket")
        assert not is_divided_by_date(table)
        assert _is_as_scanned(table)
