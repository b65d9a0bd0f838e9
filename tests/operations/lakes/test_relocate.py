"""A copy of a lake writes nothing to the original: it refuses, until its addresses are its own."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.errors import CatalogUnfit, LakeMoved
from spark_jobs.lake.file_store import FileStore
from spark_jobs.lake.identity import read_identity
from spark_jobs.lake.layout import LAKE_FILE
from spark_jobs.lake.stores import open_lake
from spark_jobs.operations.backfill import plan_backfill
from spark_jobs.operations.expire import expire, plan_expiry
from spark_jobs.operations.relocate import relocate
from spark_jobs.operations.replay import Selection, decide
from spark_jobs.operations.rollback import roll_back
from spark_jobs.pipeline.report.step import report
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from spark_jobs.run import fetch_source
from tests.operations.lakes.small_lake import (
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


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, great_expectations: object) -> Shop:
    """Three published days; only tests that leave it alone use it."""
    return published_shop(tmp_path_factory.mktemp("original") / "shop")


def _newest(settings: Settings) -> str:
    return list(run_ids(settings).values())[-1]


WRITERS: dict[str, Callable[[Settings], object]] = {
    "run": lambda settings: run(settings, 4),
    "run to its report": lambda settings: run(settings, 4, Step.REPORT),
    "fetch": lambda settings: fetch_source(settings, day(4), "gateway"),
    "rollback": lambda settings: roll_back(settings, _newest(settings)),
    "expire": expire,
    "expire --dry-run": plan_expiry,
    "backfill": lambda settings: plan_backfill(settings, BackfillRequest(first=day(1), last=day(1))),
    "replay": lambda settings: decide(settings, Selection(run_id=_newest(settings)), why="test"),
    "dashboard": report,
}


@pytest.mark.parametrize("command", WRITERS)
@pytest.mark.parametrize("identity", [True, False], ids=["", "made by an older version"])
def test_a_copy_refuses_before_anything_is_written(
    original: Shop, tmp_path: Path, command: str, identity: bool
) -> None:
    shop = copied(original, tmp_path / "copy")
    settings = settings_of(shop)
    if not identity:
        Path(settings.lake, LAKE_FILE).unlink()
    arrive(shop, 4)
    before = tree(original.directory), tree(shop.directory)
    with pytest.raises(LakeMoved, match="onceover lake relocate") as refused:
        WRITERS[command](settings)
    assert f"made at {original.directory / 'lake'}" in str(refused.value)
    assert (tree(original.directory), tree(shop.directory)) == before


def test_commands_that_only_read_work_on_a_copy(original: Shop, tmp_path: Path) -> None:
    shop = copied(original, tmp_path / "copy")
    settings_of(shop)
    before = tree(original.directory), tree(shop.directory)
    config = ["--config", str(shop.directory / "onceover.yaml")]
    for command in (
        ["runs"],
        ["explain", "plain", "0"],
        ["transactions"],
        ["log", "--to", str(tmp_path / "log")],
    ):
        done = CliRunner().invoke(app, [*command, *config])
        assert done.exit_code == 0, done.output
    assert (tree(original.directory), tree(shop.directory)) == before


def _link(source: str, target: str) -> None:
    os.link(source, target)


@pytest.mark.parametrize("copy", [shutil.copy2, _link], ids=["copied", "hard links"])
def test_a_relocated_copy_is_a_lake_of_its_own(
    original: Shop, tmp_path: Path, copy: Callable[[str, str], object]
) -> None:
    shop, before = copied(original, tmp_path / "copy", copy), tree(original.directory)
    (shop.directory / "onceover.yaml").unlink()  # which writing through a link would change
    theirs, settings = rows(settings_of(original)), settings_of(shop)
    before = tree(original.directory)
    done = relocate(settings)
    assert done.files > 0
    assert tree(original.directory) == before
    assert str(original.directory) not in _text_of_metadata(settings)
    assert rows(settings) == rows_by_duckdb(settings) == theirs

    arrive(shop, 4)
    run(settings, 4, Step.REPORT)
    assert len(rows(settings)["topics.plain"]) == 4
    expire(settings)
    roll_back(settings, _newest(settings))
    shop.arrive(3, b"", topic="plain", name="late")
    plan_backfill(settings, BackfillRequest(first=day(2), last=day(3)))
    run(settings, 4)
    assert len(rows(settings)["topics.plain"]) == 4
    assert tree(original.directory) == before
    assert rows(settings_of(original)) == theirs


def _text_of_metadata(settings: Settings) -> str:
    files = (*Path(settings.lake, "tables").rglob("*"), Path(settings.lake, "catalog", "onceover.db"))
    return "".join(path.read_bytes().decode("latin-1") for path in files if path.is_file())


def test_a_relocation_has_an_id_of_its_own_and_is_done_once(original: Shop, tmp_path: Path) -> None:
    settings = settings_of(copied(original, tmp_path / "copy"))
    theirs = read_identity(open_lake(settings_of(original)))
    assert theirs is not None
    done = relocate(settings)
    own = read_identity(open_lake(settings))
    assert own == done.identity
    assert own.lake_id != theirs.lake_id
    assert (own.location, own.relocated_from) == (settings.lake, theirs.lake_id)
    before = tree(Path(settings.lake))
    assert relocate(settings).files == 0
    assert tree(Path(settings.lake)) == before
    assert relocate(settings_of(original)).files == 0


@pytest.mark.parametrize("identity", [True, False], ids=["", "made by an older version"])
def test_a_relocation_can_be_interrupted_at_every_file(
    original: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identity: bool
) -> None:
    settings = settings_of(copied(original, tmp_path / "copy"))
    if not identity:
        Path(settings.lake, LAKE_FILE).unlink()
    before, theirs = tree(original.directory), rows(settings_of(original))
    interruptions = 0
    while _is_interrupted(settings, monkeypatch, after=interruptions):
        interruptions += 1
        with pytest.raises(LakeMoved):
            expire(settings)
    assert interruptions > 5  # each attempt continues where the one before it ended
    assert rows(settings) == theirs
    assert tree(original.directory) == before


def _is_interrupted(settings: Settings, monkeypatch: pytest.MonkeyPatch, after: int) -> bool:
    """Whether a relocation that ends when so many files have been written was not done before."""
    written = [0]
    puts = {name: getattr(FileStore, name) for name in ("put", "adopt")}

    def counted(name: str) -> Callable[..., None]:
        def write(store: FileStore, *arguments: object, **named: object) -> None:
            written[0] += not any(str(each).startswith("locks/") for each in arguments)
            if written[0] > after:
                raise KeyboardInterrupt
            puts[name](store, *arguments, **named)

        return write

    with monkeypatch.context() as patched:
        for name in puts:
            patched.setattr(FileStore, name, counted(name))
        try:
            relocate(settings)
        except KeyboardInterrupt:
            return True
    return False


def test_a_moved_lake_is_relocated_though_its_old_place_is_gone(tmp_path: Path) -> None:
    shop = published_shop(tmp_path / "shop", days=1)
    theirs = rows(settings_of(shop))
    (tmp_path / "shop").rename(tmp_path / "moved")
    settings = settings_of(Shop(tmp_path / "moved"))
    relocate(settings)
    assert rows(settings) == theirs


def test_other_spellings_of_the_same_place_are_no_copy(tmp_path: Path) -> None:
    shop = published_shop(tmp_path / "shop", days=1)
    (tmp_path / "link").symlink_to(tmp_path / "shop")
    linked = Shop(tmp_path / "link")
    arrive(linked, 2)
    run(settings_of(linked), 2)
    assert relocate(settings_of(linked)).files == 0
    assert len(rows(settings_of(shop))["topics.plain"]) == 2


def test_tables_outside_of_the_lake_stop_a_relocation(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop")
    shop.directory.mkdir()
    arrive(shop, 1)
    outside = f"catalog: {{warehouse: '{tmp_path / 'warehouse'}'}}\n"
    run(shop.settings(more=outside), 1)
    copy = copied(shop, tmp_path / "copy")
    settings = copy.settings(more=outside)
    before = tree(tmp_path)
    with pytest.raises(CatalogUnfit, match="a catalog of its own"):
        relocate(settings)
    assert tree(tmp_path) == before


def test_the_command_says_what_it_did(original: Shop, tmp_path: Path) -> None:
    shop = copied(original, tmp_path / "copy")
    settings_of(shop)
    arguments = ["lake", "relocate", "--config", str(shop.directory / "onceover.yaml")]
    first, second = (CliRunner().invoke(app, arguments) for _ in range(2))
    assert f"relocated from {original.directory / 'lake'}" in first.output
    assert "nothing has to be relocated" in second.output
