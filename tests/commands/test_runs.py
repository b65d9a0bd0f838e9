"""`onceover run` and `onceover runs` as a person calls them, as far as no Spark is needed."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spark_jobs.cli import app
from spark_jobs.config.load import load_settings
from spark_jobs.flow import Step
from spark_jobs.lake.ledger import Ledger
from spark_jobs.lake.object_store import legible
from spark_jobs.lake.stores import open_lake
from tests.pipeline.index.objects import plain_object
from tests.pipeline.runs import CAPTURE, place_at


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A run with one object."""
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


@pytest.mark.parametrize("message", ["[errno 2] no such file", "[/b]", "\x1b[31mred", "one\ntwo"])
def test_a_message_of_a_failed_run_is_shown_as_it_is(config: Path, message: str) -> None:
    run_id = _run(config).stdout.split()[0]
    Ledger(open_lake(load_settings(config))).failed(run_id, message)

    result = _call("runs", "--config", str(config))

    assert result.exit_code == 0, result.output
    for line in legible(message).splitlines():
        assert line in result.stdout
    assert "\x1b" not in result.stdout


def test_runs_shows_how_many_batches_were_accepted(config: Path) -> None:
    run_id = _run(config).stdout.split()[0]
    ledger = Ledger(open_lake(load_settings(config)))
    for step, counts in (
        (Step.ADMIT, {"batches": 13_100, "accepted": 13_078}),
        (Step.RESOLVE, {"batches": 4_653}),
    ):
        ledger.step_started(run_id, step)
        ledger.step_finished(run_id, step, counts)

    result = _call("runs", "--config", str(config))

    assert "accepted batches" in result.stdout
    assert "13,078" in result.stdout
    assert "4,653" not in result.stdout


def test_a_failure_is_reported_without_anything_that_a_terminal_obeys(tmp_path: Path) -> None:
    result = _call("runs", "--config", str(tmp_path / "a\x1b[31m[/b].yaml"))

    assert result.exit_code == 1
    assert "a\\x1b[31m[/b].yaml" in result.stderr
    assert "\x1b" not in result.stderr


def test_runs_as_json_is_one_object_per_line(config: Path) -> None:
    run_id = _run(config).stdout.split()[0]

    [line] = _call("runs", "--config", str(config), "--json").stdout.splitlines()

    found = json.loads(line)
    assert (found["run_id"], found["day"], found["status"]) == (run_id, "2024-05-01", "done")
    assert found["attempts"] == 1


def test_an_empty_lake_has_no_runs(config: Path) -> None:
    assert _call("runs", "--config", str(config), "--json").stdout == ""


def test_a_bad_configuration_is_reported_by_its_keys(config: Path) -> None:
    config.write_text(CAPTURE + "limit: {}\n")

    result = _run(config)

    assert result.exit_code == 1
    assert "onceover.yaml:8: limit: unknown key, did you mean 'limits'?" in result.stderr


@pytest.mark.parametrize(("date", "until"), [("2024-13-01", "stage"), ("2024-05-01", "publishing")])
def test_a_date_or_step_that_is_none_is_a_usage_error(config: Path, date: str, until: str) -> None:
    assert _run(config, until, date).exit_code == 2


def _arrive(config: Path, path: str, batches: int) -> None:
    place_at(config.parent).arrive(f"dt=2024-05-01/{path}", plain_object(batches))


def test_a_first_attempt_has_nothing_to_report_about_fixed_inputs(config: Path) -> None:
    assert "were fixed" not in _run(config).stderr


def test_a_rerun_reports_what_is_new_at_the_sources_and_continues_with_the_fixed_inputs(config: Path) -> None:
    _arrive(config, "orders-0/b", 2)
    first = _run(config)
    _arrive(config, "orders-0/b", 5)
    _arrive(config, "orders-0/c", 1)
    (config.parent / "capture/dt=2024-05-01/orders-0/a").unlink()

    again = _run(config)

    assert again.stdout.split()[0] == first.stdout.split()[0]
    assert "the inputs of 2024-05-01 were fixed at 20" in again.stderr
    assert "by an earlier attempt (2 objects)" in again.stderr
    assert "1 objects are new, 1 have another size or time, 1 have vanished at the sources" in again.stderr
    assert "--restage" in again.stderr


def test_a_rerun_over_unchanged_or_absent_sources_says_so(config: Path) -> None:
    _run(config)
    assert "the sources list the same objects now" in _run(config).stderr
    (config.parent / "capture").rename(config.parent / "elsewhere")

    again = _run(config)

    assert again.exit_code == 0
    assert "the sources cannot be listed for comparison" in again.stderr


def test_restage_lists_the_sources_again(config: Path) -> None:
    first = _run(config)
    _arrive(config, "orders-0/c", 1)

    again = _call(
        "run", "--config", str(config), "--date", "2024-05-01", "--until", "stage", "--restage"
    )  # fmt: skip

    assert "2 objects, 0 set aside" in again.stderr
    assert again.stdout.split()[0] != first.stdout.split()[0]
    assert "the sources list the same objects now" in _run(config).stderr
