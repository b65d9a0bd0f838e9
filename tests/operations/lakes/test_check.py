"""A lake without damage has no findings after any operation; each kind of damage is found, with a remedy."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from spark_jobs.config.settings import Settings
from spark_jobs.flow import Step
from spark_jobs.lake.iceberg.catalog import CATALOG_FILE, open_catalog
from spark_jobs.lake.layout import LAKE_FILE
from spark_jobs.operations.backfill import run_backfill
from spark_jobs.operations.check import Finding, FindingSeverity, Part, check
from spark_jobs.operations.expire import expire
from spark_jobs.operations.relocate import relocate
from spark_jobs.operations.repair import repair
from spark_jobs.operations.replay import Selection, decide
from spark_jobs.operations.rollback import roll_back
from spark_jobs.pipeline.stage.backfill_request import BackfillRequest
from tests.in_process import InProcess
from tests.operations.backfill.lakes import QUIET
from tests.operations.lakes.small_lake import arrive, copied, published_shop, rows, run_ids, settings_of, tree
from tests.operations.replay.runs import Shop, run
from tests.pipeline.batches import NOON, batch
from tests.pipeline.runs import day

pytestmark = pytest.mark.usefixtures("great_expectations")

UNFIT = b'{"amount": 2}'


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory, great_expectations: object) -> Shop:
    """Three published days with an open transaction and a value in quarantine."""
    shop = Shop(tmp_path_factory.mktemp("original"))
    shop.arrive(1, batch(0, pid=5, txn=True), topic="t")
    shop.arrive(1, batch(0, pid=8, value=UNFIT), name="unfit")
    return published_shop(shop.directory)


@pytest.fixture
def shop(original: Shop, tmp_path: Path) -> Shop:
    shop = copied(original, tmp_path / "shop")
    relocate(settings_of(shop))
    return shop


def _errors(settings: Settings, *, deep: bool = False) -> list[Finding]:
    return [each for each in check(settings, deep=deep) if each.severity is FindingSeverity.ERROR]


def test_a_good_lake_is_clean_and_not_changed(original: Shop) -> None:
    settings = settings_of(original)
    before = tree(original.directory)
    assert list(check(settings, deep=True)) == []
    assert tree(original.directory) == before


def test_a_lake_is_clean_after_everything_that_is_done_to_lakes(shop: Shop) -> None:
    settings = settings_of(shop)
    for number in (4, 5, 6):
        arrive(shop, number)
        run(settings, number, Step.REPORT)
    roll_back(settings, run_ids(settings)[day(6)])
    assert list(check(settings, deep=True)) == []
    run(settings, 6)
    shop.arrive(5, batch(0, pid=11, timestamp=NOON), topic="plain", name="late")
    request = BackfillRequest(first=day(5), last=day(5))
    assert list(run_backfill(settings, request, spark=InProcess(), progress=QUIET))
    decide(settings, Selection(run_id=run_ids(settings)[day(1)]), why="test")
    assert list(check(settings, deep=True)) == []
    expire(settings)
    assert list(check(settings, deep=True)) == []
    shutil.rmtree(Path(settings.lake) / "catalog")
    repair(settings)
    assert list(check(settings, deep=True)) == []


def _one(settings: Settings, pattern: str) -> Path:
    """The only file, or the first, of a pattern in which RUN is the run of the second day."""
    name = pattern.replace("RUN", run_ids(settings)[day(2)])
    return min(Path(settings.lake).glob(name))


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _drop_table(settings: Settings) -> None:
    with open_catalog(settings) as catalog:
        catalog.drop_table(("topics", "plain"))


def _withdraw_rows(settings: Settings) -> None:
    """An unfinished backfill: rows of a published run are not in a table any more."""
    with open_catalog(settings) as catalog:
        table = catalog.load_table(("topics", "plain"))
        table.delete("offset = 1", snapshot_properties={"onceover.rollback": "2024-05-09-0123456789abcdef"})


DAMAGES: dict[str, tuple[Part, str, Callable[[Settings], object]]] = {
    "an entry of the chain is gone": (
        Part.CHAIN,
        "entry 2 is missing",
        lambda settings: _one(settings, "chain/*2.json").unlink(),
    ),
    "an entry of the chain is damaged": (
        Part.CHAIN,
        "cannot be read",
        lambda settings: _one(settings, "chain/*2.json").write_bytes(b"{"),
    ),
    "inputs of a run are gone": (
        Part.RUNS,
        "inputs.json",
        lambda settings: _one(settings, "runs/RUN/inputs.json").unlink(),
    ),
    "a step's mark is gone": (
        Part.RUNS,
        "resolve is not marked as done",
        lambda settings: _one(settings, "runs/RUN/resolve/_done.json").unlink(),
    ),
    "a step's output is gone": (
        Part.RUNS,
        "is missing",
        lambda settings: _one(settings, "runs/RUN/admit/partitions.parquet").unlink(),
    ),
    "a step's output was cut short": (
        Part.RUNS,
        "bytes, expected",
        lambda settings: _one(settings, "runs/RUN/audit/expectation_results.parquet").write_bytes(b"PAR1"),
    ),
    "the manifest is damaged": (
        Part.RUNS,
        "SHA-256",
        lambda settings: _flip(_one(settings, "runs/RUN/stage/manifest.jsonl")),
    ),
    "a data file is gone": (
        Part.TABLES,
        "is missing",
        lambda settings: _one(settings, "runs/RUN/materialise/records/plain/*").unlink(),
    ),
    "a state is gone": (
        Part.STATES,
        "it is part of the state of",
        lambda settings: shutil.rmtree(Path(settings.lake) / "state"),
    ),
    "a staged object is gone": (
        Part.OBJECTS,
        "is missing",
        lambda settings: shutil.rmtree(Path(settings.lake) / "objects"),
    ),
    "the catalog is gone": (
        Part.TABLES,
        "the catalog file is missing",
        lambda settings: (Path(settings.lake) / CATALOG_FILE).unlink(),
    ),
    "a table is gone": (Part.TABLES, "is not in the catalog", _drop_table),
    "rows are gone from a table": (Part.TABLES, "not in it any more", _withdraw_rows),
    "a manifest is gone": (
        Part.TABLES,
        "cannot be read",
        lambda settings: _one(settings, "tables/topics/plain/metadata/*-m0.avro").unlink(),
    ),
    "metadata is damaged": (
        Part.TABLES,
        "cannot load the table",
        lambda settings: max(Path(settings.lake).glob("tables/topics/plain/metadata/*.json")).write_text("{"),
    ),
    "a line of the ledger is damaged": (
        Part.LEDGER,
        "only the times",
        lambda settings: _one(settings, "ledger/RUN.json").write_bytes(b"["),
    ),
    "it was copied": (
        Part.IDENTITY,
        "onceover lake relocate",
        lambda settings: _one(settings, LAKE_FILE).write_text(
            _one(settings, LAKE_FILE).read_text().replace(settings.lake, "/elsewhere")
        ),
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_found(damage: str, shop: Shop) -> None:
    settings = settings_of(shop).model_copy(update={"retention": Settings.model_fields["retention"].default})
    part, problem, do = DAMAGES[damage]
    do(settings)
    before = tree(shop.directory)
    found = _errors(settings)
    assert any(each.part is part and problem in f"{each.place} {each.problem}" for each in found), found
    assert tree(shop.directory) == before


CONTENTS = {
    "a step's output": "runs/RUN/admit/partitions.parquet",
    "a data file": "runs/RUN/materialise/records/plain/*",
    "a segment of the accepted log": "runs/RUN/materialise/log/plain-0/*.log",
    "a state": "state/*/*",
    "a staged object": "objects/*/*",
}


@pytest.mark.parametrize("what", CONTENTS)
def test_a_changed_byte_is_found_where_every_byte_is_read(what: str, shop: Shop) -> None:
    settings = settings_of(shop)
    path = _one(settings, CONTENTS[what])
    _flip(path)
    assert any(str(path) == each.place for each in _errors(settings, deep=True))


def test_a_step_whose_output_is_gone_is_done_again_as_the_finding_says(shop: Shop) -> None:
    settings = settings_of(shop)
    before = rows(settings)
    _one(settings, "runs/RUN/materialise/records/plain/*").unlink()
    found = _errors(settings)
    assert any("`onceover run --date 2024-05-02` does the step again" in each.remedy for each in found)
    run(settings, 2)
    assert list(check(settings, deep=True)) == []
    assert rows(settings) == before


def test_the_command_prints_findings_and_fails_if_one_is_an_error(shop: Shop) -> None:
    settings = settings_of(shop)
    arguments = ["check", "--config", str(shop.directory / "onceover.yaml")]
    clean = CliRunner().invoke(app, arguments)
    assert (clean.exit_code, "0 errors, 0 notes" in clean.output) == (0, True), clean.output
    _one(settings, LAKE_FILE).unlink()
    noted = CliRunner().invoke(app, arguments)
    assert (noted.exit_code, "0 errors, 1 notes" in noted.output) == (0, True), noted.output
    _one(settings, "runs/RUN/resolve/_done.json").unlink()
    broken = CliRunner().invoke(app, [*arguments, "--json"])
    assert broken.exit_code == 1
    lines = [json.loads(line) for line in broken.stdout.splitlines()]
    assert {"part", "place", "problem", "remedy", "severity"} == set(lines[0])


def test_a_place_without_a_lake_is_no_good_lake(tmp_path: Path) -> None:
    settings_of(Shop(tmp_path))
    done = CliRunner().invoke(app, ["check", "--config", str(tmp_path / "onceover.yaml")])
    assert (done.exit_code, "there is no lake here" in done.output) == (1, True)
