"""`onceover dashboard` as a person calls it."""

import webbrowser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_jobs.cli import app
from tests.pipeline.runs import CAPTURE, place_at

CONFIG = "onceover.yaml"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    place = place_at(tmp_path)
    place.arrive("dt=2024-05-01/orders-0/a")
    place.finish(1)
    (tmp_path / CONFIG).write_text(CAPTURE)
    return tmp_path / CONFIG


def test_it_writes_the_site_and_says_where(config: Path) -> None:
    reported = CliRunner().invoke(app, ["dashboard", "--config", str(config)])
    assert reported.exit_code == 0, reported.output
    page = Path(reported.stdout.strip())
    assert page == config.parent / "lake" / "dashboard" / "index.html"
    assert page.exists()


def test_it_opens_the_site_where_asked_to(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    CliRunner().invoke(app, ["dashboard", "--config", str(config), "--open"])
    assert opened == [(config.parent / "lake" / "dashboard" / "index.html").as_uri()]


def test_a_configuration_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    reported = CliRunner().invoke(app, ["dashboard", "--config", str(tmp_path / "none.yaml")])
    assert reported.exit_code == 1
    assert reported.stderr.startswith("onceover: ")
