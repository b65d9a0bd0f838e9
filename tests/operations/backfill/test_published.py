"""After a backfill the tables are those of a lake that saw the right objects from the start."""

from pathlib import Path

import pytest

from spark_jobs.flow import Step
from spark_jobs.kafka.formats.control_record import ControlType
from spark_jobs.lake.iceberg.catalog import open_catalog
from tests.operations.backfill.lakes import backfill, chain_of, run_day, run_tree, tables, whys
from tests.operations.backfill.lakes import plan as plan_of
from tests.pipeline.batches import batch, marker
from tests.pipeline.runs import CAPTURE, Place, day, place_at

CONFIG = CAPTURE + "    markers: true\n"
RUN_DATES = (1, 2, 3)
RIGHT = {
    "dt=2024-05-01/orders-0/a": batch(0) + batch(1),
    "dt=2024-05-01/clicks-0/a": batch(0, pid=7),
    "dt=2024-05-02/orders-0/a": batch(2) + batch(3) + batch(0, pid=5, txn=True),
    "dt=2024-05-02/orders-0/b": batch(0, pid=9),
    "dt=2024-05-02/payments-0/a": batch(0, pid=5, txn=True) + batch(0, pid=6, txn=True),
    "dt=2024-05-03/orders-0/a": batch(4) + marker(ControlType.COMMIT, pid=5),
    "dt=2024-05-03/payments-0/a": marker(ControlType.COMMIT, pid=5) + marker(ControlType.ABORT, pid=6),
    "dt=2024-05-03/clicks-0/a": batch(1, pid=7),
}
"""Transactions of the second run end in the third."""
CHANGED, LATE = "dt=2024-05-02/orders-0/a", "dt=2024-05-02/orders-0/b"
WRONG = {**RIGHT, CHANGED: batch(2) + batch(0, pid=5, txn=True)}
del WRONG[LATE]
VANISHED = "dt=2024-05-02/refunds-0/a"
WRONG[VANISHED] = batch(0, pid=3)


def _lake(directory: Path, objects: dict[str, bytes]) -> Place:
    """A lake with all runs published."""
    place = place_at(directory, CONFIG)
    for path, data in objects.items():
        place.arrive(path, data)
    for number in RUN_DATES:
        run_day(place, number, Step.PUBLISH)
    return place


def _correct(place: Place) -> None:
    """The second day as it should have been."""
    for path in (CHANGED, LATE):
        place.arrive(path, RIGHT[path])
    Path(place.settings.sources[0].root, VANISHED).unlink()


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return _lake(tmp_path_factory.mktemp("wrong"), WRONG)


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return _lake(tmp_path_factory.mktemp("right"), RIGHT)


@pytest.fixture(scope="module")
def filled(wrong: Place) -> tuple[Place, dict[str, dict[str, str]]]:
    """The wrong lake after its backfill; and the files of its runs before."""
    before = {entry.run_id: run_tree(wrong, entry.run_id) for entry in chain_of(wrong).entries}
    _correct(wrong)
    assert whys(plan_of(wrong, 2, drop_vanished=True)) == {2: ["new", "changed", "vanished"], 3: ["if state"]}
    assert backfill(wrong, 2, until=Step.PUBLISH, drop_vanished=True) == [day(2), day(3)]
    return wrong, before


def test_the_tables_are_those_of_a_lake_that_saw_the_right_objects(
    filled: tuple[Place, dict[str, dict[str, str]]], right: Place
) -> None:
    found, expected = tables(filled[0]), tables(right)
    assert found.pop("topics.refunds") == []
    compared = (
        "topics.orders",
        "topics.payments",
        "topics.clicks",
        "onceover.batches",
        "onceover.transactions",
    )
    assert {name: found[name] for name in compared} == {name: expected[name] for name in compared}
    assert [len(found["onceover.runs"]), len(found["topics.orders"])] == [3, 7]


def test_no_file_of_an_earlier_run_has_changed(filled: tuple[Place, dict[str, dict[str, str]]]) -> None:
    place, before = filled
    assert {run_id: run_tree(place, run_id) for run_id in before} == before


def test_a_topic_without_news_has_files_with_the_same_bytes(
    filled: tuple[Place, dict[str, dict[str, str]]],
) -> None:
    place, before = filled
    old = [files for run_id, files in before.items() if run_id.startswith("2024-05-03")]
    new = run_tree(place, chain_of(place).current[day(3)].run_id)
    for files in old:
        of_clicks = {name: digest for name, digest in files.items() if "clicks" in name}
        assert any("materialise" in name for name in of_clicks)
        assert {name: digest for name, digest in new.items() if "clicks" in name} == of_clicks


def test_each_table_is_replaced_in_one_snapshot_and_the_replaced_cut_can_still_be_read(
    filled: tuple[Place, dict[str, dict[str, str]]],
) -> None:
    place, _ = filled
    entries = chain_of(place).entries
    with open_catalog(place.settings) as catalog:
        orders = catalog.load_table(("topics", "orders"))
        operations = [each.summary.operation.value for each in orders.snapshots() if each.summary]
        assert operations == ["append"] * 3 + ["overwrite"] * 2
        assert {entry.run_id for entry in entries} <= orders.refs().keys()
        old = orders.refs()[entries[2].run_id].snapshot_id
        assert len(orders.scan(snapshot_id=old).to_arrow()) == 5
