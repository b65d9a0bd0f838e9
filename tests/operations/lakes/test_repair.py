"""A catalog that lost something stops every command that trusts it, and is restored from the lake."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.config.settings import Settings
from spark_jobs.lake.errors import CatalogDiffers
from spark_jobs.lake.iceberg.catalog import CATALOG_FILE, open_catalog
from spark_jobs.operations.backfill import plan_backfill
from spark_jobs.operations.expire import expire
from spark_jobs.operations.relocate import relocate
from spark_jobs.operations.repair import RepairKind, plan_repair, repair
from spark_jobs.operations.rollback import roll_back
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from tests.operations.lakes.small_lake import (
    Rows,
    arrive,
    copied,
    published_shop,
    rows,
    rows_by_duckdb,
    run_ids,
    settings_of,
    tree,
)
from tests.operations.replay.runs import Shop, run
from tests.pipeline.runs import day

pytestmark = pytest.mark.usefixtures("great_expectations")

FIRST_CATALOG = "after-two-days.db"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, great_expectations: object) -> Shop:
    """Three published days, and the catalog as it was after two."""
    shop = published_shop(tmp_path_factory.mktemp("original") / "shop", days=2)
    shutil.copy(_catalog(settings_of(shop)), shop.directory / FIRST_CATALOG)
    arrive(shop, 3)
    run(settings_of(shop), 3)
    return shop


@pytest.fixture(scope="module")
def theirs(original: Shop) -> Rows:
    return rows(settings_of(original))


@pytest.fixture
def shop(original: Shop, tmp_path: Path) -> Shop:
    """A lake like it, to be damaged; a fourth day has arrived."""
    shop = copied(original, tmp_path / "shop")
    relocate(settings_of(shop))
    arrive(shop, 4)
    return shop


def _catalog(settings: Settings) -> Path:
    return Path(settings.lake) / CATALOG_FILE


def _lose_catalog(shop: Shop) -> None:
    _catalog(settings_of(shop)).unlink()


def _lose_table(shop: Shop) -> None:
    with open_catalog(settings_of(shop)) as catalog:
        catalog.drop_table(("topics", "orders"))


def _lose_all_metadata(shop: Shop) -> None:
    _lose_catalog(shop)
    shutil.rmtree(Path(settings_of(shop).lake) / "tables")


def _lose_newest_metadata(shop: Shop) -> None:
    """The catalog is gone, and so is each table's newest metadata."""
    _lose_catalog(shop)
    for directory in Path(settings_of(shop).lake).glob("tables/*/*/metadata"):
        max(directory.glob("*.metadata.json")).unlink()


def _restore_older(shop: Shop) -> None:
    """The backup is of the day before, and of the lake at the place where it is now."""
    settings = settings_of(shop)
    shutil.copy(shop.directory / FIRST_CATALOG, _catalog(settings))
    with closing(sqlite3.connect(_catalog(settings))) as database, database:
        (old,) = database.execute("SELECT metadata_location FROM iceberg_tables LIMIT 1").fetchone()
        for column in ("metadata_location", "previous_metadata_location"):
            database.execute(
                f"UPDATE iceberg_tables SET {column} = replace({column}, ?, ?)",
                (old.partition("/tables/")[0], settings.lake),
            )


def _restore_older_without_newer(shop: Shop) -> None:
    """The whole warehouse is as it was the day before."""
    _restore_older(shop)
    for directory in Path(settings_of(shop).lake).glob("tables/*/*/metadata"):
        max(directory.glob("*.metadata.json")).unlink()


DAMAGES: dict[str, Callable[[Shop], None]] = {
    "the catalog is gone": _lose_catalog,
    "a table is gone": _lose_table,
    "the catalog and all metadata are gone": _lose_all_metadata,
    "the catalog and the newest metadata are gone": _lose_newest_metadata,
    "the catalog is an older backup": _restore_older,
    "catalog and metadata are an older backup": _restore_older_without_newer,
}
COMMANDS: dict[str, Callable[[Settings], object]] = {
    "run": lambda settings: run(settings, 4),
    "run of a final day": lambda settings: run(settings, 3),
    "expire": expire,
    "rollback": lambda settings: roll_back(settings, run_ids(settings)[day(3)]),
    "backfill": lambda settings: plan_backfill(settings, BackfillRequest(first=day(1), last=day(3))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_the_catalog_lost_stops_the_run_and_is_repaired(damage: str, shop: Shop, theirs: Rows) -> None:
    settings = settings_of(shop)
    DAMAGES[damage](shop)
    with pytest.raises(CatalogDiffers, match="onceover repair"):
        run(settings, 4)
    before = tree(Path(settings.lake))
    planned = plan_repair(settings)
    assert tree(Path(settings.lake)) == before
    assert planned
    assert repair(settings) == planned
    assert rows(settings) == rows_by_duckdb(settings) == theirs
    assert plan_repair(settings) == []

    run(settings, 4)
    assert {name: len(each) for name, each in rows(settings).items() if name.startswith("topics.")} == {
        "topics.orders": 4,
        "topics.plain": 4,
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_trusts_a_catalog_that_lost_a_table(command: str, shop: Shop, theirs: Rows) -> None:
    settings = settings_of(shop)
    _lose_table(shop)
    files = set(Path(settings.lake, "runs").rglob("*.parquet"))
    with pytest.raises(
        CatalogDiffers, match=r"the table of topic orders is missing from the catalog \(\d published runs"
    ):
        COMMANDS[command](settings)
    assert files <= set(Path(settings.lake, "runs").rglob("*.parquet"))
    repair(settings)
    assert rows(settings) == theirs


def test_metadata_that_is_found_keeps_the_history(shop: Shop) -> None:
    settings = settings_of(shop)
    before = _history(settings)
    _lose_catalog(shop)
    assert {each.kind for each in repair(settings)} == {RepairKind.ENTER}
    assert _history(settings) == before


def _history(settings: Settings) -> dict[str, list[int]]:
    with open_catalog(settings) as catalog:
        names = [name for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace)]
        tables = {".".join(name): catalog.load_table(name) for name in names}
    return {name: [each.snapshot_id for each in table.snapshots()] for name, table in tables.items()}


def test_what_cannot_be_published_again_is_listed(shop: Shop) -> None:
    settings = settings_of(shop)
    _lose_all_metadata(shop)
    gone = next(Path(settings.lake, "runs", run_ids(settings)[day(2)]).glob("materialise/records/plain/*"))
    gone.unlink()
    done = CliRunner().invoke(app, ["repair", "--config", str(shop.directory / "onceover.yaml")])
    assert done.exit_code == 1
    assert f"{gone} is gone; restore it from a backup" in done.output
    assert len(rows(settings)["topics.plain"]) == 2
    assert len(rows(settings)["topics.orders"]) == 3
    with pytest.raises(CatalogDiffers):
        run(settings, 4)


def test_a_backfill_or_rollback_that_was_interrupted_is_no_loss(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(shop)
    run_id = run_ids(settings)[day(3)]
    with monkeypatch.context() as patched:
        patched.setattr("spark_jobs.operations.rollback.take_back", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            roll_back(settings, run_id)
    assert plan_repair(settings) == []
    roll_back(settings, run_id)
    assert plan_repair(settings) == []
    run(settings, 3)
    run(settings, 4)
    assert len(rows(settings)["topics.plain"]) == 4


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_rows_that_another_engine_deleted_are_no_loss_and_stay_deleted(shop: Shop) -> None:
    settings = settings_of(shop)
    with open_catalog(settings) as catalog:
        catalog.load_table(("topics", "plain")).delete("offset = 0")
    assert plan_repair(settings) == []
    run(settings, 4)
    assert len(rows(settings)["topics.plain"]) == 3


def test_the_command_says_when_there_is_nothing_to_do(shop: Shop) -> None:
    settings_of(shop)
    done = CliRunner().invoke(app, ["repair", "--config", str(shop.directory / "onceover.yaml")])
    assert (done.exit_code, "nothing to repair" in done.output) == (0, True)


def test_what_an_unfinished_backfill_put_into_tables_is_repaired(shop: Shop, theirs: Rows) -> None:
    settings = settings_of(shop)
    with open_catalog(settings) as catalog:
        table = catalog.load_table(("topics", "plain"))
        table.delete("offset = 1", snapshot_properties={"onceover.run-id": "2024-05-02-0123456789abcdef"})
    assert rows(settings) != theirs
    assert [str(each) for each in repair(settings)] == [
        f"the table of topic plain: publish {run_ids(settings)[day(2)]} with 1 rows again"
    ]
    assert rows(settings) == theirs
