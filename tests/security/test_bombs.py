"""A batch that would fill the machine costs a bounded amount of memory, is corrupt, and the run continues."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.security.bombs import bombs

MOST_MIB = 512
"""What nine bombs of up to 100 GiB may cost together, in one process, where a batch may have 32 MiB."""


def _run(directory: Path, kind: str) -> Any:
    directory.mkdir()
    command = [sys.executable, "-m", "tests.security.bombed_run", str(directory), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def bombed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return _run(tmp_path_factory.mktemp("run") / "bombed", "bombed")


def test_every_bomb_is_corrupt_and_says_why(bombed: Any) -> None:
    found = {row["producer_id"]: (row["verdict"], row["reason"]) for row in bombed["quarantined"]}
    assert list(found) == list(range(100, 100 + len(bombs())))
    assert {verdict for verdict, _ in found.values()} == {"corrupt"}
    limited = [reason for _, reason in found.values() if "limit exceeded: expected at most" in reason]
    assert len(limited) >= 5


def test_the_batches_around_a_bomb_are_published(bombed: Any) -> None:
    assert bombed["counts"]["materialise"]["records"] == 2 * len(bombs())


def test_bombs_cost_a_bounded_amount_of_memory(bombed: Any, tmp_path: Path) -> None:
    assert bombed["peak_mib"] < _run(tmp_path / "plain", "plain")["peak_mib"] + MOST_MIB
