"""`onceover replay` as a person calls it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spark_jobs.cli import app
from spark_jobs.lake.layout import REPLAYS
from spark_jobs.lake.stores import open_lake
from tests.operations.replay.runs import Shop, run
from tests.pipeline.batches import batch

pytestmark = pytest.mark.usefixtures("great_expectations")


@pytest.fixture(scope="module")
def example_run(tmp_path_factory: pytest.TempPathFactory, great_expectations: object) -> tuple[Path, str]:
    """A configuration, and a run with a rejected and a held batch in quarantine."""
    shop = Shop(tmp_path_factory.mktemp("shop"))
    shop.arrive(1, batch(0), batch(5), batch(0, pid=2, txn=True), topic="t")
    return shop.directory / "onceover.yaml", run(shop.settings(), 1).run_id


def _call(example_run: tuple[Path, str], *arguments: str) -> Result:
    config, run_id = example_run
    return CliRunner().invoke(
        app, ["replay", run_id, "--config", str(config), *arguments], env={"COLUMNS": "300"}
    )


def test_a_list_says_what_can_be_replayed_and_why_not(example_run: tuple[Path, str]) -> None:
    result = _call(example_run, "--list")
    assert result.exit_code == 0
    refused, held = (line for line in result.stdout.splitlines() if "t-0" in line)
    assert "out_of_order" in refused
    assert refused.endswith("arrive ") or "arrive" in refused.split()
    assert "no: a later run takes it once its transaction" in held
    assert "1 of 2 can be replayed; the next run judges them again" in result.output


def test_lines_of_json_have_everything_but_the_bytes(example_run: tuple[Path, str]) -> None:
    rows = [json.loads(line) for line in _call(example_run, "--list", "--json").stdout.splitlines()]
    assert [(row["kind"], row["way"], bool(row["refusal"])) for row in rows] == [
        ("rejected", "arrive", False),
        ("held", None, True),
    ]
    assert "bytes" not in rows[0]


def test_nobody_decides_without_a_reason(example_run: tuple[Path, str]) -> None:
    result = _call(example_run)
    assert result.exit_code == 2
    assert "--reason" in result.output


def test_a_dry_run_decides_nothing_and_a_real_one_once(example_run: tuple[Path, str]) -> None:
    lake = open_lake(Shop(example_run[0].parent).settings())
    assert _call(example_run, "--reason", "why not", "--dry-run").exit_code == 0
    assert list(lake.list(REPLAYS)) == []
    first = _call(example_run, "--reason", "why not", "--kind", "rejected")
    assert first.exit_code == 0
    assert "1 of 1 go into the next run, in 1 batches" in first.output
    again = _call(example_run, "--reason", "why not", "--kind", "rejected")
    assert again.exit_code == 1
    assert "it was already chosen for the next run" in again.output
    assert len(list(lake.list(REPLAYS))) == 1


def test_an_unknown_run_is_reported(example_run: tuple[Path, str]) -> None:
    result = _call((example_run[0], "2024-05-01-0000000000000000"), "--list")
    assert result.exit_code == 1
    assert "has no such run" in result.output
