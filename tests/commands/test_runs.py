"""`onceover run` and `onceover runs` as a person calls them, as far as no Spark is needed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spark_jobs.cli import app
from tests.indexing.objects import plain_object
from tests.steps.nights import CAPTURE, place_at


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A night with one object."""
    place_at(tmp_path).arrive("dt=2024-05-01/orders-0/a", plain_object(3))
    path = tmp_path / "onceover.yaml"
    path.write_text(CAPTURE)
    return path


def _call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def _run(config: Path, until: str = "stage", date: str = "2024-05-01") -> Result:
    return _call("run", "--config", str(config), "--date", date, "--until", until)


def test_a_run_says_its_name_and_how_far_it_went(config: Path) -> None:
    result = _run(config)

    assert result.exit_code == 0
    assert result.stdout.startswith("2024-05-01-")
    assert result.stdout.endswith("  done until stage\n")
    assert "1 objects, 0 set aside" in result.stderr


def test_a_run_again_says_that_nothing_was_left_to_do(config: Path) -> None:
    first = _run(config)

    again = _run(config)

    assert again.stdout == first.stdout.replace("\n", ", nothing was left to do\n")


def test_runs_lists_what_was_run(config: Path) -> None:
    run_id = _run(config).stdout.split()[0]

    result = _call("runs", "--config", str(config))

    assert result.exit_code == 0
    assert run_id in result.stdout
    assert "done" in result.stdout


def test_runs_as_json_is_one_object_per_line(config: Path) -> None:
    run_id = _run(config).stdout.split()[0]

    [line] = _call("runs", "--config", str(config), "--json").stdout.splitlines()

    found = json.loads(line)
    assert (found["run_id"], found["day"], found["status"]) == (run_id, "2024-05-01", "done")
    assert found["attempts"] == 1


def test_an_empty_lake_has_no_runs(config: Path) -> None:
    assert _call("runs", "--config", str(config), "--json").stdout == ""


def test_a_bad_configuration_is_told_by_its_keys(config: Path) -> None:
    config.write_text(CAPTURE + "limit: {}\n")

    result = _run(config)

    assert result.exit_code == 1
    assert "onceover.yaml:8: limit: unknown key, did you mean 'limits'?" in result.stderr


@pytest.mark.parametrize(("date", "until"), [("2024-13-01", "stage"), ("2024-05-01", "publishing")])
def test_a_date_or_step_that_is_none_is_a_usage_error(config: Path, date: str, until: str) -> None:
    assert _run(config, until, date).exit_code == 2
