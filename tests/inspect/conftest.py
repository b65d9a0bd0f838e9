"""What the tests of `inspect` share: the command line, run for real."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from spark_jobs.cli import app
from tests.sample.log_directory import write_sample

Inspect = Callable[..., Result]


@pytest.fixture
def inspect() -> Inspect:
    """`onceover inspect` with these arguments."""
    return lambda *arguments: CliRunner().invoke(app, ["inspect", *map(str, arguments)])


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    write_sample(tmp_path / "sample")
    return tmp_path / "sample"


def objects(result: Result) -> list[dict[str, Any]]:
    """The JSON objects on the standard output."""
    return [json.loads(line) for line in result.stdout.splitlines()]
