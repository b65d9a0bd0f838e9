"""`onceover backfill` as a person calls it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spark_jobs.cli import app
from tests.operations.backfill.lakes import tree
from tests.pipeline.admitted import admit
from tests.pipeline.batches import batch
from tests.pipeline.runs import CAPTURE, place_at

CONFIG = "onceover.yaml"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Three runs, and an object that came late to the second."""
    place = place_at(tmp_path)
    for number in (1, 2, 3):
        place.arrive(f"dt=2024-05-0{number}/orders-0/a", batch(number))
        admit(place, number)
    place.arrive("dt=2024-05-02/orders-0/late[1]", batch(0, pid=9))
    (tmp_path / CONFIG).write_text(CAPTURE)
    return tmp_path / CONFIG


def _backfill(config: Path, *arguments: str, first: int = 1, last: int = 2) -> Result:
    days = ("--from", f"2024-05-0{first}", "--to", f"2024-05-0{last}")
    return CliRunner().invoke(app, ["backfill", "--config", str(config), *days, *arguments])


def test_a_dry_run_says_which_days_would_change_and_why_and_writes_nothing(config: Path) -> None:
    before = tree(config.parent)
    reported = _backfill(config, "--dry-run")
    assert reported.exit_code == 0, reported.output
    lines = [" ".join(line.split()) for line in reported.stdout.splitlines()]
    assert "2024-05-01 no nothing has changed" in lines
    late = "gateway/dt=2024-05-02/orders-0/late[1]"
    assert f"2024-05-02 yes 1 object that arrived after the run and no run has taken {late}" in lines
    assert "2024-05-03 may run again if the state of 2024-05-02 changes" in lines
    assert tree(config.parent) == before


def test_for_machines_a_day_is_a_line(config: Path) -> None:
    lines = [json.loads(line) for line in _backfill(config, "--dry-run", "--json").stdout.splitlines()]
    assert [(line["day"], line["changes"], [each["why"] for each in line["reasons"]]) for line in lines] == [
        ("2024-05-01", False, []),
        ("2024-05-02", True, ["new"]),
        ("2024-05-03", False, ["if state"]),
    ]


def test_where_nothing_has_changed_nothing_runs_and_no_spark_starts(config: Path) -> None:
    before = tree(config.parent)
    reported = _backfill(config, last=1)
    assert (reported.exit_code, "no date has changed" in reported.stdout) == (0, True)
    assert tree(config.parent) == before


def test_days_that_never_ran_are_the_business_of_run(config: Path) -> None:
    reported = _backfill(config, first=7, last=9)
    assert (reported.exit_code, "runs a date for the first time" in reported.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "first", "why"),
    [(("--source", "nobody"), 1, "no source 'nobody', only gateway"), ((), 3, "ends before it begins")],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(
    config: Path, arguments: tuple[str, ...], first: int, why: str
) -> None:
    reported = _backfill(config, "--dry-run", *arguments, first=first)
    assert reported.exit_code == 1
    assert why in reported.stderr


def test_the_days_run_and_the_ledger_says_why(config: Path) -> None:
    reported = _backfill(config, "--topic", "ord*", "--reason", "a gateway was late", "--until", "admit")
    assert reported.exit_code == 0, reported.output
    runs = CliRunner().invoke(app, ["runs", "--config", str(config), "--json"])
    lines = [json.loads(line) for line in runs.stdout.splitlines()]
    reason = "backfill of 2024-05-01 to 2024-05-02 (ord*): a gateway was late"
    assert [(line["run_id"][:10], line["status"], line["reason"]) for line in lines] == [
        ("2024-05-01", "final", ""),
        ("2024-05-02", "replaced", ""),
        ("2024-05-02", "final", reason),
        ("2024-05-03", "replaced", ""),
        ("2024-05-03", "final", reason),
    ]
    finals = [line["run_id"] for line in lines if line["reason"]]
    assert [line.split()[0] for line in reported.stdout.splitlines() if line.endswith("final")] == finals
